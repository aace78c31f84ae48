// Checks of times. A failure reports the times in milliseconds, and the collectives that do not overlap with
// computation.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// A duration, which converts from nanoseconds and from any std::chrono::duration.
struct Time {
  Time(Nanoseconds time) : ns(time) {}  // NOLINT(google-explicit-constructor)
  template <class Rep, class Period>
  Time(std::chrono::duration<Rep, Period> time)  // NOLINT(google-explicit-constructor)
      : ns(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()) {}
  Nanoseconds ns;
};

/// `85 ms`, `2.5 ms`
std::string in_ms(Time time);

enum class Limit : std::uint8_t { at_most, less_than, at_least, exactly };

/// One assertion: `what` of the iteration takes this time. `check_time(iteration, "forward", iteration.forward(),
/// Limit::at_most, 87ms);`
void check_time(const Iteration& iteration, std::string_view what, Time time, Limit limit, Time expected);

/// The collectives of an iteration that do not overlap with computation, longest first: `all_gather "layers.1" (10 ms),
/// …`. Empty if every collective overlaps.
std::string exposed_collectives(const Iteration& iteration);

}  // namespace shardproof::suites
