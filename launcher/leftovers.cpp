#include "launcher/leftovers.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "harness/protocol/environment.hpp"
#include "harness/protocol/file_descriptor.hpp"

namespace shardproof::launcher {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

/// Of all threads of this process.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::istringstream numbers(text_of(thread.path() / "children"));
    for (pid_t child = 0; numbers >> child;) found.push_back(child);
  }
  return found;
}

std::optional<int> rank_of(const std::string& environment) {
  const std::string wanted = fmt::format("{}=", environment::rank);
  for (std::size_t begin = 0; begin < environment.size();) {
    const std::string_view variable = std::string_view(environment).substr(begin, environment.find('\0', begin) - begin);
    int rank = 0;
    if (variable.starts_with(wanted)) {
      const std::string_view digits = variable.substr(wanted.size());
      if (std::from_chars(digits.data(), digits.data() + digits.size(), rank).ec == std::errc{}) return rank;
    }
    begin += variable.size() + 1;
  }
  return std::nullopt;
}

Leftover look_at(pid_t process) {
  const std::filesystem::path directory = fmt::format("/proc/{}", process);
  std::string name = text_of(directory / "comm");
  while (!name.empty() && name.back() == '\n') name.pop_back();
  return {.process = process, .name = std::move(name), .rank = rank_of(text_of(directory / "environ"))};
}

bool is_dead(pid_t process) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == process;
}

/// Waits for a killed child, and not for ever: uninterruptible sleep survives SIGKILL.
void reap(pid_t process) {
  constexpr int patience_ms = 1000;
  const FileDescriptor descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  pollfd watched{.fd = descriptor.get(), .events = POLLIN, .revents = 0};
  if (descriptor) ::poll(&watched, 1, patience_ms);
  ::waitpid(process, nullptr, WNOHANG);
}

}  // namespace

void adopt_orphans() noexcept { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<Leftover> end_leftovers() {
  std::vector<Leftover> ended;
  // What a killed one has started is ours in the next round. Bounded: a program that forks without end must not keep the launcher busy.
  for (int round = 0; round < 100; ++round) {
    const std::vector<pid_t> found = children();
    if (found.empty()) break;
    for (const pid_t child : found) {
      // Who has ended by itself has left nothing behind.
      if (!is_dead(child)) {
        ended.push_back(look_at(child));
        ::kill(child, SIGKILL);
      }
      reap(child);
    }
  }
  return ended;
}

std::string describe(const Leftover& leftover) {
  std::string text = fmt::format("process {} ({})", leftover.process, leftover.name);
  if (leftover.rank) text += fmt::format(", started by rank {}", *leftover.rank);
  return text;
}

}  // namespace shardproof::launcher
