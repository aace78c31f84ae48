// The clock of virtual time: it computes when work starts and ends, from its duration. It has rules 1 to 5 of
// docs/simulated-time.md, for one rank. The simulated device runs on it, and `retimed` uses it to time recorded facts
// again. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// `start` plus `cost`. Throws std::overflow_error after 292 years; so does `multiple`.
Nanoseconds later(Nanoseconds start, Nanoseconds cost);
Nanoseconds multiple(Nanoseconds cost, std::size_t count);

class VirtualClock {
 public:
  struct Times {
    Nanoseconds start = 0, end = 0;
    friend bool operator==(const Times&, const Times&) = default;
  };

  /// Stream 0 exists from the start.
  std::uint32_t create_stream();
  std::size_t streams() const { return end_of_.size(); }
  std::size_t events() const { return event_times_.size(); }

  Nanoseconds host() const { return host_; }
  /// The end of everything that the stream has been given, waits included.
  Nanoseconds end_of(std::uint32_t stream) const { return end_of_[stream]; }

  /// The host does work of its own for this long.
  void advance_host(Nanoseconds cost) { host_ = later(host_, cost); }
  Times work(std::uint32_t stream, Nanoseconds cost);
  /// The earliest time when this rank can take part in a collective whose resource is free at `resource_free`.
  Nanoseconds ready(std::uint32_t stream, Nanoseconds resource_free) const;
  /// `start` is the time when all its ranks were ready.
  Times collective(std::uint32_t stream, Nanoseconds start, Nanoseconds cost);

  /// The number of the event, from 0.
  std::size_t record(std::uint32_t stream);
  void wait(std::uint32_t stream, std::size_t event);
  void synchronize_stream(std::uint32_t stream);
  void synchronize_event(std::size_t event);

 private:
  Nanoseconds host_ = 0;
  std::vector<Nanoseconds> end_of_{0};
  std::vector<Nanoseconds> event_times_;
};

/// The timing that a trace does not have itself, by the index of the fact.
struct Pace {
  /// How long the work or the collective takes.
  std::function<Nanoseconds(std::size_t fact)> duration;
  /// Which resource a collective occupies. Collectives of one resource run one at a time, in the order in which they
  /// were issued.
  std::function<std::uint64_t(std::size_t fact)> resource;
  /// When all ranks of a collective are ready; this rank is ready at `ready`. The calls come in the order of the facts,
  /// which is the same on all ranks of a group. So the function may ask the other ranks.
  std::function<Nanoseconds(std::size_t fact, Nanoseconds ready)> all_ready;
};

/// The same facts at the times that this pace gives them with an infinitely quick host: the max-plus optimum of their
/// order. Each fact starts as soon as what it waits for has ended. Collectives of one call share their times. A wait
/// for an event that was never recorded waits for nothing.
Trace retimed(Trace trace, const Pace& pace);

}  // namespace shardproof::trace
