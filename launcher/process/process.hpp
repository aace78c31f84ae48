// A child process and all that it starts: spawned into a process group of its own, waited for on a descriptor, and gone when its handle is.
//
//   Process child = Process::spawn({.program = "worker", .environment = {...}, .standard_output = out.get(), .standard_error = err.get()});
//   if (!child.wait(deadline)) child.signal_group(SIGKILL);
//
// A child must not outlive its launcher when that is killed: only the child itself can arrange for it (PR_SET_PDEATHSIG).
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

/// How a process ended, in the kernel's words.
struct Exit {
  bool signalled = false;
  int code = 0;  ///< signal number or exit code
  friend bool operator==(const Exit&, const Exit&) = default;
};

/// `signal 9 (SIGKILL)`, `exit code 3`.
std::string describe(const Exit& end);

/// What to run. Standard input is /dev/null; no other descriptor of the launcher's but these reaches the child.
struct Command {
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< after the program's own name
  std::vector<std::string> environment;  ///< NAME=value, all of it
  int standard_output = -1;  ///< borrowed until spawn returns
  int standard_error = -1;
  int third = -1;  ///< the same: its descriptor 3; -1: it has none
};

class Process {
 public:
  /// Throws std::system_error naming the program when it cannot be started.
  static Process spawn(const Command& command);
  /// A child of this process that leads a process group of its own, whoever started it. Throws std::system_error when it is none.
  static Process adopt(pid_t pid);

  Process(Process&&) noexcept = default;
  Process& operator=(Process&&) = delete;
  /// Kills the group, and waits no more than `unkillable_after` for the child to be gone.
  ~Process();

  pid_t pid() const { return pid_; }
  /// Readable once the child has ended.
  int descriptor() const { return descriptor_.get(); }

  /// How the child ended, if it has. Whatever is left of its group is killed first. Throws std::system_error when somebody else has reaped it.
  std::optional<Exit> collect();
  /// The same, waiting until the deadline.
  std::optional<Exit> wait(Deadline deadline);
  /// To the child and all that it started. Nothing once it has been collected.
  void signal_group(int number) noexcept;
  /// Lets go of a process that cannot be killed: nothing waits for it any more.
  void leave_behind() noexcept { descriptor_ = FileDescriptor(); }

  /// A process in uninterruptible sleep survives SIGKILL: nobody waits for it longer than this.
  static constexpr std::chrono::seconds unkillable_after{5};

 private:
  static Process of_child(pid_t pid);
  Process(pid_t pid, FileDescriptor descriptor) : pid_(pid), descriptor_(std::move(descriptor)) {}

  pid_t pid_;
  FileDescriptor descriptor_;
  std::optional<Exit> end_;
};

}  // namespace shardproof::launcher
