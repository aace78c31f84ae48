#include "launcher/process/leftovers.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

#include "harness/base/file_descriptor.hpp"
#include "harness/protocol/environment.hpp"
#include "launcher/files/small_file.hpp"

namespace shardproof::launcher {
namespace {

/// The children of all threads of this process.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::istringstream numbers(whole_text(thread.path() / "children"));
    for (pid_t child = 0; numbers >> child;) found.push_back(child);
  }
  return found;
}

/// The value of a variable in an environment, as the kernel shows it. Empty: the variable is missing.
std::string_view value_of(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view variable = environment.substr(0, environment.find('\0'));
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('='))
      return variable.substr(name.size() + 1);
    environment.remove_prefix(std::min(variable.size() + 1, environment.size()));
  }
  return {};
}

/// Whether a rank of this process started it, by its environment.
bool is_of_our_ranks(std::string_view environment) {
  return value_of(environment, protocol::environment::parent) == std::to_string(getpid());
}

Leftover inspect(pid_t process, std::string_view environment) {
  return {.process = process,
          .name = first_line(fmt::format("/proc/{}/comm", process)),
          .rank = std::string(is_of_our_ranks(environment) ? value_of(environment, protocol::environment::rank) : "")};
}

bool is_dead(pid_t process) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == process;
}

/// Waits for a killed child, but not forever: uninterruptible sleep survives SIGKILL. Returns true when the child is
/// gone.
bool reap(pid_t process) {
  constexpr int patience_ms = 1000;
  const base::FileDescriptor descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  pollfd watched{.fd = descriptor.get(), .events = POLLIN, .revents = 0};
  if (descriptor) ::poll(&watched, 1, patience_ms);
  return ::waitpid(process, nullptr, WNOHANG) != 0;
}

}  // namespace

Leftovers::Leftovers(std::span<const pid_t> ours) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  for (const pid_t child : children()) before_.insert(child);
  has_foreign_children_ =
      std::ranges::any_of(before_, [&](pid_t child) { return std::ranges::find(ours, child) == ours.end(); });
}

Leftovers::~Leftovers() {
  try {
    end();
  } catch (const std::exception&) {
    // Without memory, this process cannot end them.
  }
}

std::vector<Leftover> Leftovers::end() {
  return end_those([this](pid_t child, std::string_view environment) {
    return !has_foreign_children_ || is_of_our_ranks(environment) || is_dead(child);
  });
}

std::vector<Leftover> Leftovers::end_of(const std::filesystem::path& plan) {
  return end_those([name = plan.string()](pid_t, std::string_view environment) {
    return is_of_our_ranks(environment) && value_of(environment, protocol::environment::plan) == name;
  });
}

std::vector<Leftover> Leftovers::end_those(const std::function<bool(pid_t, std::string_view)>& is_ours) const {
  std::vector<Leftover> ended;
  std::set<pid_t> tried;
  // The children of a killed process become ours in the next round. The number of rounds is bounded: a program that
  // forks without end must not keep the launcher busy.
  for (int round = 0; round < 100; ++round) {
    bool is_done = true;
    for (const pid_t child : children()) {
      if (before_.contains(child) || tried.contains(child)) continue;
      const std::string environment = whole_text(fmt::format("/proc/{}/environ", child));
      if (!is_ours(child, environment)) continue;
      tried.insert(child);
      is_done = false;
      if (is_dead(child)) {  // it has already ended by itself
        reap(child);
        continue;
      }
      Leftover leftover = inspect(child, environment);
      ::kill(child, SIGKILL);
      leftover.is_gone = reap(child);
      ended.push_back(std::move(leftover));
    }
    if (is_done) break;
  }
  return ended;
}

std::string describe(const Leftover& leftover) {
  std::string text = fmt::format("process {} ({})", leftover.process, leftover.name);
  if (leftover.rank == all_ranks) text += ", started by one of the ranks, which are threads of one process,";
  else if (!leftover.rank.empty()) text += fmt::format(", started by rank {},", leftover.rank);
  return text + (leftover.is_gone ? " running; the launcher killed it" : " running; SIGKILL does not end it");
}

}  // namespace shardproof::launcher
