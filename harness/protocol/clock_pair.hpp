// ClockPair is two clocks of a host, read at one moment. Each host has its own CLOCK_MONOTONIC, which counts from its
// start. By their pairs, times of two hosts can be compared: as exactly as the hosts' clocks of the day agree, which is
// some milliseconds with NTP.
#pragma once

#include <cstdint>

namespace shardproof::protocol {

struct ClockPair {
  std::int64_t monotonic_ns = 0;  ///< CLOCK_MONOTONIC
  std::int64_t realtime_ns = 0;  ///< The clock of the day, which a user or a daemon may set.
  friend bool operator==(const ClockPair&, const ClockPair&) = default;
};

ClockPair read_clocks();

/// Converts a time of the CLOCK_MONOTONIC of `host` to the CLOCK_MONOTONIC of `reference`. Returns 0 for a time before
/// that clock started. Returns the time unchanged for pairs that no clock can have.
std::int64_t rebased(std::int64_t monotonic_ns, const ClockPair& host, const ClockPair& reference);

}  // namespace shardproof::protocol
