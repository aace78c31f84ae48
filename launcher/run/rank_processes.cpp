#include "launcher/run/rank_processes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/base/open_files.hpp"
#include "harness/control/link/acceptor.hpp"
#include "harness/protocol/environment.hpp"
#include "launcher/files/output.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/leftovers.hpp"
#include "launcher/worker_client/warm_process.hpp"

namespace shardproof::launcher {

void allow_descriptors(int ranks, std::size_t worlds, bool has_hub) {
  constexpr rlim_t of_a_world = 8, of_our_own = 56;
  const rlim_t own = static_cast<rlim_t>(ranks) + worlds * of_a_world + of_our_own;
  const rlim_t needed = has_hub ? own + own / (control::link::Acceptor::part_of_strangers - 1) + 1 : own;
  if (const auto limit = base::raise_open_files(needed)) {
    throw CommandError(infrastructure,
                       fmt::format("{} {} need{} {} open files, the limit is {}: raise it with `ulimit -n {}`", ranks,
                                   ranks == 1 ? "rank" : "ranks", ranks == 1 ? "s" : "", needed, *limit, needed));
  }
}

RankProcesses::RankProcesses(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                             const WorldLaunch& launch, Poller& poller)
    : plan_(plan),
      directory_(directory),
      launch_(launch),
      poller_(poller),
      processes_(static_cast<std::size_t>(plan.size)) {}

std::optional<Ranks::Failure> RankProcesses::start() {
  const std::vector<int> copied = ranks_to_copy();
  try {
    copy(copied);
  } catch (const std::system_error& error) {
    return Failure{.rank = copied.front(), .why = error.what()};
  } catch (const WarmProcess::NoCopy& error) {
    if (launch_.warm->is_required()) return Failure{.rank = copied.front(), .why = error.what()};
    if (const auto warning = launch_.warm->take_warning(error); warning && launch_.print)
      launch_.print("warning: " + *warning);
  }
  for (int rank = 0; rank < plan_.size; ++rank) {
    try {
      if (is_one_process() && rank > 0) share_process(rank);
      else if (!process(rank)) take(rank, spawn(rank));
    } catch (const std::system_error& error) {
      for (int later = rank; later < plan_.size; ++later) drop(later);
      return Failure{.rank = rank, .why = error.what()};
    }
    if (is_debugged(rank)) print_debugger_hint(rank);
  }
  return std::nullopt;
}

void RankProcesses::take(int rank, Process started) {
  process(rank) = std::make_shared<Process>(std::move(started));
  poller_.add(process(rank)->descriptor(), static_cast<std::uint64_t>(rank));
  ++alive_;
}

/// Kills the rank, if it lives.
void RankProcesses::drop(int rank) {
  if (!process(rank)) return;
  poller_.remove(process(rank)->descriptor());
  process(rank).reset();
  --alive_;
}

/// A rank with a wrapper is a process of another program.
std::vector<int> RankProcesses::ranks_to_copy() const {
  std::vector<int> ranks;
  if (launch_.warm == nullptr) return ranks;
  for (int rank = 0; rank < (is_one_process() ? 1 : plan_.size); ++rank) {
    if (!is_wrapped(rank)) ranks.push_back(rank);
  }
  return ranks;
}

void RankProcesses::copy(const std::vector<int>& ranks) {
  if (ranks.empty()) return;
  protocol::CopyRequest request{.environment = common_environment(), .ranks = {}};
  for (const int rank : ranks) {
    request.ranks.push_back({.environment = own_environment(rank),
                             .standard_output = directory_.standard_output(rank).string(),
                             .standard_error = directory_.standard_error(rank).string()});
  }
  std::vector<Process> copies;
  try {
    copies = launch_.warm->copy(request, directory_.plan());
  } catch (const std::runtime_error&) {
    std::error_code ignored;  // Another process begins this stream, and says so if it cannot.
    for (const int rank : ranks) std::filesystem::remove(directory_.rank_stream(rank), ignored);
    throw;
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) take(ranks[i], std::move(copies[i]));
}

/// The variables that all ranks have.
std::vector<std::string> RankProcesses::common_environment() const {
  std::vector<std::string> variables = launch_.environment;
  for (const auto& own : plan_.environment) {
    std::erase_if(variables, [&](const std::string& entry) { return own.contains(entry.substr(0, entry.find('='))); });
  }
  variables.push_back(fmt::format("{}={}", protocol::environment::plan, directory_.plan().string()));
  variables.push_back(fmt::format("{}={}", protocol::environment::parent, getpid()));
  return variables;
}

std::vector<std::string> RankProcesses::own_environment(int rank) const {
  std::vector<std::string> variables;
  const auto set = [&](std::string_view name, const auto& value) {
    variables.push_back(fmt::format("{}={}", name, value));
  };
  if (!plan_.environment.empty()) {
    for (const auto& [name, value] : plan_.environment.at(static_cast<std::size_t>(rank))) set(name, value);
  }
  set(protocol::environment::rank, is_one_process() ? std::string(all_ranks) : std::to_string(rank));
  if (is_debugged(rank)) set(protocol::environment::debug, 1);
  return variables;
}

Process RankProcesses::spawn(int rank) {
  const base::FileDescriptor out = open_log(directory_.standard_output(rank)),
                             err = open_log(directory_.standard_error(rank));
  Command command{.program = launch_.worker,
                  .arguments = {},
                  .environment = common_environment(),
                  .standard_output = out.get(),
                  .standard_error = err.get()};
  const std::vector<std::string> own = own_environment(rank);
  command.environment.insert(command.environment.end(), own.begin(), own.end());
  if (is_wrapped(rank)) {
    command.program = "/bin/sh";
    command.arguments = {"-c", fmt::format("exec {} \"$@\"", launch_.wrapper.command), "sh", launch_.worker.string()};
    return Process::spawn(command);
  }
  return Process::spawn(command);
}

bool RankProcesses::is_wrapped(int rank) const {
  const auto& [command, ranks] = launch_.wrapper;
  const auto is_meant = [&](int wrapped) { return is_one_process() ? wrapped < plan_.size : wrapped == rank; };
  return !command.empty() && (ranks.empty() || std::ranges::any_of(ranks, is_meant));
}

/// The rank shares the process of rank 0, which is the process of all ranks. Its output comes from all of them.
void RankProcesses::share_process(int rank) {
  process(rank) = process(0);
  for (const auto& log : {&protocol::WorldDirectory::standard_output, &protocol::WorldDirectory::standard_error}) {
    std::error_code ignored;  // the log of rank 0 exists anyway
    std::filesystem::create_symlink((directory_.*log)(0).filename(), (directory_.*log)(rank), ignored);
  }
}

bool RankProcesses::is_debugged(int rank) const {
  return launch_.debug >= 0 && launch_.debug < plan_.size && rank == (is_one_process() ? 0 : launch_.debug);
}

void RankProcesses::print_debugger_hint(int rank) const {
  if (!launch_.print) return;
  launch_.print(fmt::format(
      "{} in process {}, waiting for a debugger before its first case: gdb -p {}, `continue`, set breakpoints where "
      "it stops, and `continue` again",
      is_one_process() ? std::string("all ranks are") : fmt::format("rank {} is", rank), pid(rank), pid(rank)));
}

bool RankProcesses::shows_end(const std::vector<std::uint64_t>& ready) const {
  return std::ranges::any_of(ready, [this](std::uint64_t key) { return key < processes_.size(); });
}

std::vector<Ranks::Ended> RankProcesses::collect(const std::vector<std::uint64_t>& ready) {
  std::vector<Ended> ended;
  for (const std::uint64_t key : ready) {
    if (key >= processes_.size()) continue;
    const int rank = static_cast<int>(key);
    if (const auto end = process(rank)->collect()) ended.push_back({.rank = rank, .end = *end, .reason = {}});
  }
  for (const Ended& one : ended) {
    poller_.remove(process(one.rank)->descriptor());
    process(one.rank).reset();
    --alive_;
  }
  if (is_one_process() && !ended.empty()) {
    std::ranges::fill(processes_, nullptr);
    alive_ = 0;
  }
  std::ranges::stable_partition(ended, [](const Ended& one) { return one.end.signalled; });
  return ended;
}

void RankProcesses::signal_all(int number) noexcept {
  for (const auto& process : processes_) {
    if (process) process->signal_group(number);
  }
}

std::vector<Ranks::Abandoned> RankProcesses::abandon() {
  std::vector<Abandoned> abandoned;
  for (const int rank : alive(*this, plan_.size)) {
    abandoned.push_back({rank, pid(rank)});
    if (process(rank).use_count() == 1) {
      poller_.remove(process(rank)->descriptor());
      process(rank)->abandon();
    }
    process(rank).reset();
    --alive_;
  }
  return abandoned;
}

}  // namespace shardproof::launcher
