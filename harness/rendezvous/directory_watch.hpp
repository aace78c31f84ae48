// DirectoryWatch waits for a new file in a directory. It first looks at short intervals and uses inotify when the wait
// takes longer. Each of its waits has a time limit. It does not use inotify at once, because the kernel takes some 10
// ms to release it, and most files appear sooner. It does not use inotify alone, for two reasons. The kernel's inotify
// does not see changes by other hosts on a network file system. A user may have no more than 128 inotify instances.
#pragma once

#include <chrono>
#include <filesystem>
#include <utility>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof::rendezvous {

class DirectoryWatch {
 public:
  /// `notify` is false for a watch that only looks at intervals.
  DirectoryWatch(std::filesystem::path directory, bool notify) : directory_(std::move(directory)), notify_(notify) {}

  /// Waits until a file appears, a pause is over, or the deadline passes. The first pause takes 50 µs; each later one
  /// takes twice as long, up to 20 ms. May return early.
  void wait(control::Deadline deadline);
  /// The caller found a file: the pauses start short again.
  void reset() { pause_ = shortest; }

 private:
  static constexpr std::chrono::microseconds shortest{50}, longest{20'000};

  void arm();

  std::filesystem::path directory_;
  bool notify_;  ///< inotify is still to be tried
  base::FileDescriptor inotify_;  ///< empty: only look at intervals
  std::chrono::microseconds pause_ = shortest;
};

}  // namespace shardproof::rendezvous
