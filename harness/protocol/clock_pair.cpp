#include "harness/protocol/clock_pair.hpp"

#include <algorithm>
#include <ctime>
#include <limits>

namespace shardproof::protocol {

namespace {

std::int64_t now_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

ClockPair read_clocks() {
  // A rank that loses its core between two readings would make a wrong pair. The shortest of a few tries counts.
  constexpr int tries = 3;
  ClockPair best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < tries; ++i) {
    const std::int64_t before = now_of(CLOCK_MONOTONIC);
    const std::int64_t realtime = now_of(CLOCK_REALTIME);
    const std::int64_t taken = now_of(CLOCK_MONOTONIC) - before;
    if (taken >= least) continue;
    least = taken;
    best = {.monotonic_ns = before + taken / 2, .realtime_ns = realtime};
  }
  return best;
}

std::int64_t rebased(std::int64_t monotonic_ns, const ClockPair& host, const ClockPair& reference) {
  std::int64_t start = 0, start_of_reference = 0, offset = 0, time = 0;
  const bool is_out_of_range =
      __builtin_sub_overflow(host.realtime_ns, host.monotonic_ns, &start) ||
      __builtin_sub_overflow(reference.realtime_ns, reference.monotonic_ns, &start_of_reference) ||
      __builtin_sub_overflow(start, start_of_reference, &offset) || __builtin_add_overflow(monotonic_ns, offset, &time);
  return is_out_of_range ? monotonic_ns : std::max<std::int64_t>(time, 0);
}

}  // namespace shardproof::protocol
