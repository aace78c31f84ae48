#include "launcher/process/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "harness/protocol/ending.hpp"

namespace shardproof::launcher {
namespace {

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

class SpawnActions {
  static constexpr int third = STDERR_FILENO + 1;

 public:
  explicit SpawnActions(const Command& command) {
    check(posix_spawn_file_actions_init(&actions_), "posix_spawn_file_actions_init");
    check(posix_spawn_file_actions_adddup2(&actions_, command.standard_output, STDOUT_FILENO), "dup2 standard output");
    check(posix_spawn_file_actions_adddup2(&actions_, command.standard_error, STDERR_FILENO), "dup2 standard error");
    check(posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0), "open /dev/null");
    if (command.third >= 0)
      check(posix_spawn_file_actions_adddup2(&actions_, command.third, third), "dup2 descriptor 3");
    if (command.inherits_descriptors) return;
    check(posix_spawn_file_actions_addclosefrom_np(&actions_, command.third >= 0 ? third + 1 : third), "closefrom");
  }
  SpawnActions(const SpawnActions&) = delete;
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// Gives the child its own process group, and resets the launcher's signal settings for it.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    check(posix_spawnattr_init(&attributes_), "posix_spawnattr_init");
    check(
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF),
        "setflags");
    check(posix_spawnattr_setpgroup(&attributes_, 0), "setpgroup");
    sigset_t signals;
    sigemptyset(&signals);
    check(posix_spawnattr_setsigmask(&attributes_, &signals), "setsigmask");
    sigfillset(&signals);
    check(posix_spawnattr_setsigdefault(&attributes_, &signals), "setsigdefault");
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::string describe(const Exit& end) {
  return end.signalled ? protocol::signal_text(end.code) : fmt::format("exit code {}", end.code);
}

Process Process::spawn(const Command& command) {
  const SpawnActions actions(command);
  const SpawnAttributes attributes;
  std::vector<std::string> arguments{command.program.string()};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());

  pid_t pid = 0;
  const int error = posix_spawn(&pid, command.program.c_str(), actions.get(), attributes.get(),
                                pointers(arguments).data(), pointers(command.environment).data());
  if (error != 0) {
    throw std::system_error(
        error, std::generic_category(),
        fmt::format("cannot start {}{}", command.program.string(), protocol::hint_for_no_process(error)));
  }

  return of_child(pid);
}

Process Process::adopt(pid_t pid) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("process {} is not a child of this process", pid));
  return of_child(pid);
}

Process Process::of_child(pid_t pid) {
  // Only this process can reap the child, so its number is still its own here.
  base::FileDescriptor descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!descriptor) {
    const int why = errno;
    ::kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    throw std::system_error(why, std::generic_category(), "pidfd_open (needs Linux 5.3 or later)");
  }
  return Process(pid, std::move(descriptor));
}

Process::~Process() {
  if (end_ || !descriptor_) return;  // collected, or moved from
  signal_group(SIGKILL);
  try {
    wait(std::chrono::steady_clock::now() + unkillable_after);
  } catch (const std::system_error&) {
    // Other code has reaped it. It has ended anyway.
  }
}

void Process::signal_group(int number) noexcept {
  // Until it is collected, the child keeps its number and its group's number. The kernel does not use them again.
  if (end_) return;
  ::kill(-pid_, number);
  if (::getpgid(pid_) != pid_) ::kill(pid_, number);  // it has changed its group
}

std::optional<Exit> Process::collect() {
  if (end_) return end_;
  siginfo_t info{};
  // First looks at the child, and reaps it later. Between the two, the group's number still belongs to the child.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    throw std::system_error(errno, std::generic_category(), fmt::format("waitid for child process {}", pid_));
  }
  if (info.si_pid == 0) return std::nullopt;
  signal_group(SIGKILL);
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG);
  end_ = Exit{.signalled = info.si_code != CLD_EXITED, .code = info.si_status};
  return end_;
}

std::optional<Exit> Process::wait(control::Deadline deadline) {
  for (;;) {
    if (auto end = collect()) return end;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    pollfd watched{.fd = descriptor_.get(), .events = POLLIN, .revents = 0};
    ::poll(&watched, 1, static_cast<int>(std::min<std::chrono::milliseconds::rep>(left.count(), 1'000'000)));
  }
}

}  // namespace shardproof::launcher
