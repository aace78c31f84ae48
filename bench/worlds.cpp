#include "bench/worlds.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "bench/measure.hpp"
#include "harness/protocol/run_directory.hpp"
#include "launcher/run/world.hpp"
#include "tests/launcher/one_world.hpp"

namespace shardproof::bench {

std::filesystem::path programs() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

Scratch::Scratch() {
  std::string name = "/dev/shm/shardproof-bench-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
  path_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;  // no code needs the folder any more
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path Scratch::fresh() { return path_ / fmt::format("{}", given_++); }

Bench::Bench()
    : worker_(launcher::ask_worker(programs() / "bench-worker", signals_)),
      warm_(worker_, scratch_.fresh(), signals_) {}

double Bench::world_ms(int size, const std::vector<std::string>& cases, Ranks ranks) {
  protocol::WorldPlan plan{
      .size = size, .nonce = {}, .rendezvous = {}, .directory = {}, .subject = {}, .fault = {}, .cases = cases};
  const protocol::WorldDirectory directory{fresh()};
  launcher::WorldOutcome outcome;
  const double ms = milliseconds([&] {
    outcome = launcher::testing::run_world(plan, directory,
                                           {.worker = worker_.program,
                                            .environment = worker_.environment,
                                            .warm = ranks == Ranks::copied ? &warm_ : nullptr,
                                            .print = [](const std::string& text) {
                                              if (!text.empty()) throw std::runtime_error(text);
                                            }});
  });
  if (!outcome.complete)
    throw std::runtime_error(fmt::format("a world of {} did not end in order: {}", size, outcome.infrastructure_error));
  return ms;
}

std::vector<std::string> Bench::cases(const std::string& prefix) const {
  std::vector<std::string> ids;
  for (const protocol::CaseInfo& info : worker_.listing.cases) {
    if (info.id.starts_with(prefix)) ids.push_back(info.id);
  }
  return ids;
}

void Bench::spawn(const std::filesystem::path& program, const std::vector<std::string>& arguments, int count,
                  const std::filesystem::path& output) {
  const base::FileDescriptor file(::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) throw std::system_error(errno, std::generic_category(), "open " + output.string());
  const launcher::Command command{.program = program,
                                  .arguments = arguments,
                                  .environment = worker_.environment,
                                  .standard_output = file.get(),
                                  .standard_error = file.get()};
  std::vector<launcher::Process> running;
  for (int i = 0; i < count; ++i) running.push_back(launcher::Process::spawn(command));
  for (launcher::Process& process : running) {
    const auto end = process.wait(std::chrono::steady_clock::now() + std::chrono::minutes(5));
    if (!end || *end != launcher::Exit{}) {
      throw std::runtime_error(fmt::format("{} {}: {}:\n{}", program.string(), fmt::join(arguments, " "),
                                           end ? launcher::describe(*end) : "did not end in five minutes",
                                           read(output)));
    }
  }
}

double Bench::spawn_ms(const std::filesystem::path& program, const std::vector<std::string>& arguments, int count) {
  const auto output = fresh();
  return milliseconds([&] { spawn(program, arguments, count, output); });
}

std::string read(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::filesystem::path find_program(const std::string& name) {
  const char* path = ::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (std::filesystem::exists(std::filesystem::path(folder) / name)) return std::filesystem::path(folder) / name;
  }
  throw std::runtime_error(name + " is not installed");
}

std::vector<std::string> mpirun_arguments(int ranks, const std::filesystem::path& program) {
  return {"--allow-run-as-root", "--oversubscribe", "-n", fmt::format("{}", ranks), program.string()};
}

}  // namespace shardproof::bench
