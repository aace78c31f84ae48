// The signals that ask a process to end, as a descriptor: an interrupted run still ends its ranks, writes its report and leaves nothing in
// memory. Besides SIGINT, SIGTERM and SIGHUP these are what batch systems and limits send (SIGUSR1, SIGUSR2, SIGXCPU), SIGQUIT and SIGALRM.
#pragma once

#include <signal.h>

#include <optional>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::launcher {

/// For the main thread of a command. Signals that the caller was told to ignore (nohup) stay ignored. A closed terminal or pipe must not
/// end a run either: SIGPIPE is ignored meanwhile.
class SignalWatch {
 public:
  SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  ~SignalWatch();

  /// Readable when a signal has come.
  int descriptor() const { return descriptor_.get(); }
  /// The number of the next signal that has come, if any.
  std::optional<int> take();

 private:
  sigset_t before_{};
  struct sigaction pipe_before_{};
  FileDescriptor descriptor_;
};

}  // namespace shardproof::launcher
