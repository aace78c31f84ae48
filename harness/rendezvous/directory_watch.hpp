// Waiting for a new file in a directory: by looking at short intervals first, by inotify when it takes longer, and in bounded steps in any
// case. Not by inotify at once, because giving it back takes the kernel some 10 ms, and most files are there sooner; not by inotify alone,
// because it does not see what other hosts do on a network file system, and a user may have no more than 128 of them.
#pragma once

#include <chrono>
#include <filesystem>
#include <utility>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof::rendezvous {

class DirectoryWatch {
 public:
  /// `notify`: false only to look at intervals.
  DirectoryWatch(std::filesystem::path directory, bool notify) : directory_(std::move(directory)), notify_(notify) {}

  /// Until a file appears, or a pause is over (50 µs, then twice as long each time up to 20 ms), or the deadline. May return early.
  void wait(Deadline deadline);
  /// Something was found: the pauses start short again.
  void reset() { pause_ = shortest; }

 private:
  static constexpr std::chrono::microseconds shortest{50}, longest{20'000};

  void arm();

  std::filesystem::path directory_;
  bool notify_;              ///< still to be armed
  FileDescriptor inotify_;  ///< none: only to look at intervals
  std::chrono::microseconds pause_ = shortest;
};

}  // namespace shardproof::rendezvous
