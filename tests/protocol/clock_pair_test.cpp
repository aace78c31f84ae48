// Times of one host as times of another host.
#include "harness/protocol/clock_pair.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>

namespace shardproof::protocol {
namespace {

constexpr std::int64_t one_second = 1'000'000'000;

TEST_CASE("a time of another host is converted by both pairs of clocks") {
  // One host started at 1000 s of the clock of the day, the other at 1600 s.
  const ClockPair early{.monotonic_ns = 700 * one_second, .realtime_ns = 1700 * one_second};
  const ClockPair late{.monotonic_ns = 250 * one_second, .realtime_ns = 1850 * one_second};
  CHECK(rebased(100 * one_second, late, early) == 700 * one_second);
  CHECK(rebased(700 * one_second, early, late) == 100 * one_second);
  CHECK(rebased(123, early, early) == 123);
}

TEST_CASE("a time before the start of the other clock is 0") {
  const ClockPair early{.monotonic_ns = 0, .realtime_ns = 1000}, late{.monotonic_ns = 0, .realtime_ns = 1600};
  CHECK(rebased(599, early, late) == 0);
  CHECK(rebased(601, early, late) == 1);
}

TEST_CASE("pairs that no clock can have change no time") {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(rebased(5, {.monotonic_ns = 0, .realtime_ns = most}, {.monotonic_ns = most, .realtime_ns = 0}) == 5);
  CHECK(rebased(most, {.monotonic_ns = 0, .realtime_ns = 10}, {.monotonic_ns = 0, .realtime_ns = 0}) == most);
}

TEST_CASE("both clocks are read") {
  const ClockPair first = read_clocks(), next = read_clocks();
  CHECK(first.monotonic_ns > 0);
  CHECK(next.monotonic_ns > first.monotonic_ns);
  CHECK(next.realtime_ns > 1'700'000'000 * one_second);
}

}  // namespace
}  // namespace shardproof::protocol
