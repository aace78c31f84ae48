// Names streams, pieces of work and times in messages of this room. Inner header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// `2 s`, `10 ms`, `2.5 µs`, `7 ns`: exact, in the largest unit that gives at least one.
std::string in_time(Nanoseconds time);

class Words {
 public:
  explicit Words(const Trace& trace) : trace_(trace), streams_(streams(trace)) {}

  /// Describes a fact that touches bytes: `forward "layers.1" on stream compute (10 ms..35 ms)`,
  /// `release on stream compute`.
  std::string access(std::size_t fact) const;
  /// The name of its stream; empty for the host.
  std::string stream_of(std::size_t fact) const;

 private:
  std::string name(std::uint32_t stream) const;

  const Trace& trace_;
  std::map<std::uint32_t, StreamInfo> streams_;
};

}  // namespace shardproof::trace
