// A child process, and all processes that it starts. It is spawned into its own process group. The launcher waits for
// it on a descriptor. Destroying the handle ends it.
//
//   Process child = Process::spawn({.program = "worker", .environment = {...}, .standard_output = out.get(),
//   .standard_error = err.get()});
//   if (!child.wait(deadline)) child.signal_group(SIGKILL);
//
// A child must not outlive a launcher that is killed. Only the child itself can arrange that (PR_SET_PDEATHSIG).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof::launcher {

/// How a process ended, as the kernel reports it.
struct Exit {
  bool signalled = false;
  int code = 0;  ///< signal number or exit code
  friend bool operator==(const Exit&, const Exit&) = default;
};

/// `signal 9 (SIGKILL)`, `exit code 3`.
std::string describe(const Exit& end);

/// What to run. Standard input is /dev/null. The child gets no other descriptor of the launcher than these, unless it
/// `inherits_descriptors`.
struct Command {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< after the program's own name
  std::vector<std::string> environment;  ///< NAME=value, all of it
  int standard_output = -1;  ///< borrowed until spawn returns
  int standard_error = -1;
  int third = -1;  ///< the child's descriptor 3, borrowed likewise; -1: it has none
  /// The child also gets each descriptor that this process has inherited: those that do not close on exec.
  bool inherits_descriptors = false;
};

class Process {
 public:
  /// Throws std::system_error naming the program when it cannot be started.
  static Process spawn(const Command& command);
  /// Takes over a child of this process that leads its own process group. Another process may have spawned the child.
  /// Throws std::system_error if `pid` is not such a child.
  static Process adopt(pid_t pid);

  Process(Process&&) noexcept = default;
  Process& operator=(Process&&) = delete;
  /// Kills the group, and waits at most `unkillable_after` for the child to end.
  ~Process();

  pid_t pid() const { return pid_; }
  /// Readable once the child has ended.
  int descriptor() const { return descriptor_.get(); }

  /// How the child ended, if it has. Kills the rest of the child's group first. Throws std::system_error if other code
  /// has reaped the child.
  std::optional<Exit> collect();
  /// The same, but waits until the deadline.
  std::optional<Exit> wait(control::Deadline deadline);
  /// Sends a signal to the child and all processes that it started. Does nothing after the child has been collected.
  void signal_group(int number) noexcept;
  /// Gives up a process that cannot be killed. The launcher no longer waits for it.
  void abandon() noexcept { descriptor_ = base::FileDescriptor(); }

  /// The longest wait for a killed process. A process in uninterruptible sleep survives SIGKILL.
  static constexpr std::chrono::seconds unkillable_after{5};

 private:
  static Process of_child(pid_t pid);
  Process(pid_t pid, base::FileDescriptor descriptor) : pid_(pid), descriptor_(std::move(descriptor)) {}

  pid_t pid_;
  base::FileDescriptor descriptor_;
  std::optional<Exit> end_;
};

}  // namespace shardproof::launcher
