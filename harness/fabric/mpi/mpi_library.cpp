#include "harness/fabric/mpi/mpi_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "harness/fabric/mpi/mpi_table.hpp"

namespace shardproof::fabric::mpi {

namespace {

using messages::Arrival;
using messages::Operation;
using protocol::mpich;
using protocol::open_mpi;

/// A launcher of the library sets this variable for each rank.
constexpr std::array<std::pair<const char*, const MpiLibrary*>, 3> signs{
    {{"OMPI_COMM_WORLD_SIZE", &open_mpi}, {"PMIX_RANK", &open_mpi}, {"PMI_RANK", &mpich}}};

const MpiTable& load(const MpiLibrary& library, const std::filesystem::path& module) {
  const auto refuse = [&](std::string_view why) -> std::runtime_error {
    return std::runtime_error(fmt::format("fabric mpi: {} ({}): {}", module.string(), library.name, why));
  };
  if (!std::filesystem::exists(module)) {
    throw refuse(
        fmt::format("there is no such file. Install the package {} and build shardproof again, or start the "
                    "ranks by another MPI",
                    library.package));
  }
  // UCX, a transport of both libraries, replaces the handlers of crash signals when it is loaded. But the rank's own
  // handler saves its stack.
  ::setenv("UCX_ERROR_SIGNALS", "", 0);
  void* const loaded = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) throw refuse(::dlerror());
  const auto function = reinterpret_cast<TableFunction>(::dlsym(loaded, table_function));
  if (function == nullptr)
    throw refuse(fmt::format("it has no {}, so it is not a module of shardproof", table_function));
  const MpiTable& table = *function();
  if (table.version != MpiTable::current_version || table.bytes != sizeof(MpiTable)) {
    throw refuse(
        fmt::format("it has version {} of the interface with {} bytes, this program has {} with {}: build both "
                    "together",
                    table.version, table.bytes, MpiTable::current_version, sizeof(MpiTable)));
  }
  return table;
}

class LibraryTransport final : public messages::Transport {
 public:
  explicit LibraryTransport(const MpiTable& table) : table_(table) {
    std::array<char, MpiTable::text_bytes> text{};
    table_.name(text.data());
    name_ = text.data();
    check("start", table_.start(&rank_, &size_, &greatest_tag_));
  }

  std::string_view name() const override { return name_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int greatest_tag() const override { return greatest_tag_; }

  Operation send(std::span<const std::byte> bytes, int to, int tag) override {
    Operation begun;
    check("send", table_.send(bytes.data(), bytes.size(), to, tag, &begun.value));
    return begun;
  }

  Operation receive(std::span<std::byte> room, int from, int tag) override {
    Operation begun;
    check("receive", table_.receive(room.data(), room.size(), from, tag, &begun.value));
    return begun;
  }

  bool test(Operation& operation) override {
    int is_over = 0;
    check("test", table_.test(&operation.value, &is_over));
    return is_over != 0;
  }

  void cancel(Operation& receive) override { check("cancel", table_.cancel(&receive.value)); }

  std::optional<Arrival> probe() override {
    int found = 0;
    Arrival arrival;
    check("probe", table_.probe(&found, &arrival.from, &arrival.tag, &arrival.bytes));
    return found == 0 ? std::nullopt : std::optional(arrival);
  }

  void finish() override { check("finish", table_.finish()); }

  /// The library may use the memory until the process ends.
  void abandon(std::shared_ptr<void> memory) override {
    if (memory) new std::shared_ptr<void>(std::move(memory));
  }

 private:
  void check(std::string_view what, Status status) const {
    if (status == 0) return;
    std::array<char, MpiTable::text_bytes> text{};
    table_.error_text(status, text.data());
    throw std::runtime_error(fmt::format("fabric mpi: {}: {}: {}", name_, what, text.data()));
  }

  const MpiTable& table_;
  std::string name_;
  int rank_ = -1, size_ = 0, greatest_tag_ = 0;
};

}  // namespace

const MpiLibrary& library_of(const Environment& environment) {
  if (const char* const chosen = environment("SHARDPROOF_MPI"); chosen != nullptr) {
    const std::string_view name = chosen;
    if (name == "openmpi") return open_mpi;
    if (name == "mpich") return mpich;
    throw std::runtime_error(
        fmt::format("fabric mpi: SHARDPROOF_MPI is \"{}\": set it to openmpi or mpich, or unset it", name));
  }
  const auto sign = std::ranges::find_if(signs, [&](const auto& it) { return environment(it.first) != nullptr; });
  if (sign != signs.end()) return *sign->second;
  throw std::runtime_error(
      "fabric mpi: no MPI has started this process: none of OMPI_COMM_WORLD_SIZE, PMIX_RANK and PMI_RANK is set. Start "
      "the ranks by mpirun, or by srun --mpi with the interface of the MPI library, or use the fabric tcp, which needs "
      "no MPI");
}

std::filesystem::path default_module_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib/shardproof";
}

std::unique_ptr<messages::Transport> open_library(const MpiLibrary& library, const std::filesystem::path& folder) {
  return std::make_unique<LibraryTransport>(load(library, folder / library.module));
}

}  // namespace shardproof::fabric::mpi
