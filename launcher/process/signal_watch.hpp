// The signals that ask a process to end, as a descriptor. An interrupted run still ends its ranks, writes its report
// and leaves nothing in memory. The signals are:
//   - SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGALRM,
//   - SIGUSR1, SIGUSR2 and SIGXCPU, which batch systems and limits send.
#pragma once

#include <signal.h>

#include <optional>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::launcher {

/// The main thread of a command owns it. Signals that the parent process had ignored (nohup) stay ignored.
class SignalWatch {
 public:
  SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  ~SignalWatch();

  /// Readable when a signal has arrived.
  int descriptor() const { return descriptor_.get(); }
  /// The number of the next signal that has arrived, if any.
  std::optional<int> take();

 private:
  sigset_t before_{};
  base::FileDescriptor descriptor_;
};

}  // namespace shardproof::launcher
