#include "launcher/run/nccl_tap.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "harness/protocol/environment.hpp"
#include "harness/protocol/nccl_faults.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/home.hpp"

namespace shardproof::launcher {
namespace {

constexpr std::string_view preload_variable = "LD_PRELOAD";

/// Whether no loader prepares the program: then LD_PRELOAD has no effect. An unreadable program gives an error later,
/// when it is run.
bool is_static(const std::filesystem::path& program) {
  std::ifstream in(program, std::ios::binary);
  Elf64_Ehdr header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return false;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int part = 0; part < header.e_phnum; ++part) {
    Elf64_Phdr segment{};
    if (!in.read(reinterpret_cast<char*>(&segment), sizeof segment)) return false;
    if (segment.p_type == PT_INTERP) return false;
  }
  return true;
}

/// The value of a variable in a list of NAME=value. Empty: the variable is missing.
std::string value_in(std::span<const std::string> environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

std::string checked_nccl_faults(const std::string& list) {
  try {
    protocol::parse_faults(list);
  } catch (const std::invalid_argument& error) {
    throw CommandError(usage, fmt::format("--nccl-faults: {}", error.what()));
  }
  return list;
}

std::filesystem::path built_tap() { return launcher_home() / "lib/libshardproof_nccl_tap.so"; }

std::string why_not_preloadable(const std::filesystem::path& library, const std::filesystem::path& program) {
  if (library.string().find_first_of(" :\t\n") != std::string::npos)
    return fmt::format(
        "LD_PRELOAD cannot name {}: blanks and colons part its entries; move the build or the installation",
        library.string());
  if (is_static(program))
    return fmt::format("{} is linked statically, and nothing can be preloaded into it", program.string());
  return {};
}

void find_tap(NcclTap& tap, const std::filesystem::path& worker) {
  tap.library = built_tap();
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(tap.library, unknown)) {
    const OptionalPart part{.name = "the NCCL tap", .target = "shardproof_nccl_tap_library", .file = tap.library};
    throw CommandError(infrastructure, fmt::format("--nccl-tap: {}", why_missing(part, launcher_home())));
  }
  if (const std::string why = why_not_preloadable(tap.library, worker); !why.empty())
    throw CommandError(infrastructure, fmt::format("--nccl-tap: {}", why));
}

void apply_tap(protocol::WorldPlan& plan, const NcclTap& tap, const protocol::WorldDirectory& directory,
               std::span<const std::string> environment) {
  plan.environment.resize(static_cast<std::size_t>(plan.size));
  const std::string others = value_in(environment, preload_variable);
  for (int rank = 0; rank < plan.size; ++rank) {
    auto& own = plan.environment[static_cast<std::size_t>(rank)];
    own[std::string(preload_variable)] =
        others.empty() ? tap.library.string() : fmt::format("{}:{}", tap.library.string(), others);
    // Ranks that are threads share a process, which leaves a single record.
    own[protocol::environment::nccl_tap] =
        directory.nccl_record(plan.fabric == protocol::thread_fabric ? 0 : rank).string();
    if (!tap.faults.empty()) own[protocol::environment::nccl_faults] = tap.faults;
  }
}

}  // namespace shardproof::launcher
