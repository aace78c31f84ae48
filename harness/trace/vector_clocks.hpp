// Vector clocks over the streams and the host of one rank's facts. This is the only place that defines which facts
// order others. A fact on a stream follows earlier facts on that stream, and the events that the stream waited for. It
// also follows what the host had waited for, or accessed itself, before it issued the fact. A host access follows what
// the host has waited for. Inner header of this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

class VectorClocks {
 public:
  /// The position-th action of an agent (a stream or the host), from 1. Position 0: a fact that does nothing to bytes.
  struct Moment {
    std::uint32_t agent = 0;
    std::uint32_t position = 0;
    friend bool operator==(const Moment&, const Moment&) = default;
  };

  explicit VectorClocks(const Trace& trace);

  /// Takes the facts of the trace one by one, in their order.
  Moment take(const Fact& fact);

  /// How many actions of each agent precede the moment that was taken last, itself included.
  std::span<const std::uint32_t> clock() const { return row(last_.agent); }
  /// True if `earlier` precedes the moment that was taken last, or is that moment.
  bool precedes(Moment earlier) const { return clock()[earlier.agent] >= earlier.position; }

  std::size_t agents() const { return agents_; }

 private:
  std::uint32_t agent_of(std::uint32_t stream) const { return agent_of_.at(stream); }
  std::span<std::uint32_t> row(std::size_t agent) { return {clocks_.data() + agent * agents_, agents_}; }
  std::span<const std::uint32_t> row(std::size_t agent) const { return {clocks_.data() + agent * agents_, agents_}; }
  std::span<std::uint32_t> event(std::uint64_t id, bool create);
  Moment next(std::uint32_t agent);

  static constexpr std::uint32_t host = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> agent_of_;  // stream -> agent
  std::size_t agents_ = 1;
  std::vector<std::uint32_t> clocks_;  // a row per agent
  std::unordered_map<std::uint64_t, std::size_t> event_rows_;
  std::vector<std::uint32_t> event_clocks_;  // a row per event
  Moment last_;
};

}  // namespace shardproof::trace
