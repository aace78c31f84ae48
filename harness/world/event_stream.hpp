// A rank's own file of event lines. Each line is one write to a file opened for appending: whatever ends the process, what was said stays
// said.
#pragma once

#include <filesystem>

#include "harness/base/file_descriptor.hpp"
#include "harness/protocol/events.hpp"

namespace shardproof {

class EventStream {
 public:
  /// Makes the file and the directories above it. Throws std::system_error naming it when it cannot be made or exists already: a stream
  /// belongs to one rank of one world.
  explicit EventStream(std::filesystem::path file);

  /// Throws std::system_error naming the file when the line cannot be written whole: a report must not miss it silently.
  void write(const RankEvent& event);

 private:
  std::filesystem::path file_;
  FileDescriptor descriptor_;
};

/// CLOCK_MONOTONIC in nanoseconds: comparable between the ranks of a machine.
std::int64_t monotonic_ns();

}  // namespace shardproof
