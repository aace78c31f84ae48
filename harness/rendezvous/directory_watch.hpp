// Waiting for a new file in a directory: by inotify where there is one to be had, and in bounded steps in any case, because inotify does
// not see what other hosts do on a network file system, and a user may have no more than 128 of them.
#pragma once

#include <chrono>
#include <filesystem>

#include "harness/protocol/doorbell.hpp"  // Deadline
#include "harness/protocol/file_descriptor.hpp"

namespace shardproof::rendezvous {

class DirectoryWatch {
 public:
  /// Files that appear from here on end the next wait. `notified`: false only to look at intervals.
  DirectoryWatch(const std::filesystem::path& directory, bool notified);

  /// Until a file appears, or a pause is over (1 ms, then twice as long each time up to 20 ms), or the deadline.
  void wait(Deadline deadline);
  /// Something was found: the pauses start short again.
  void reset() { pause_ = shortest; }

 private:
  static constexpr std::chrono::milliseconds shortest{1}, longest{20};

  FileDescriptor inotify_;  ///< none: only to look at intervals
  std::chrono::milliseconds pause_ = shortest;
};

}  // namespace shardproof::rendezvous
