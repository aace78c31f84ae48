// A rank's own file of event lines. The file is open for appending, and each line is one write. So written events
// survive any end of the process.
#pragma once

#include <filesystem>

#include "harness/base/file_descriptor.hpp"
#include "harness/protocol/events.hpp"

namespace shardproof::world {

class EventStream {
 public:
  /// Makes the file and its directories. Throws std::system_error with the file's name if the file cannot be made or
  /// exists already: a stream belongs to one rank of one world.
  explicit EventStream(std::filesystem::path file);

  /// Throws std::system_error with the file's name if the line cannot be written completely: a report must not miss it
  /// silently.
  void write(const protocol::RankEvent& event);

 private:
  std::filesystem::path file_;
  base::FileDescriptor descriptor_;
};

/// CLOCK_MONOTONIC in nanoseconds. Ranks on one host can compare these times. For ranks on several hosts, a merge
/// converts them (protocol/clock_pair.hpp).
std::int64_t monotonic_ns();

}  // namespace shardproof::world
