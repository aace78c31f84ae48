// How long does it take, beside how long it could take at best? With clocks that are no part of the verdict: that comes from the order of what
// was measured.
#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "harness/trace/pieces.hpp"
#include "harness/trace/timeline.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

struct Phases {
  Nanoseconds forward = 0, forward_backward = 0;
};

// By iteration.
std::vector<Phases> phases(const Trace& trace, const scenario::Scenario& scenario) {
  std::vector<Phases> all;
  for (const scenario::Iteration& iteration : scenario::iterations(trace, scenario.script)) {
    all.push_back({iteration.forward(), iteration.forward_backward()});
  }
  return all;
}

Phases shorter(const Phases& a, const Phases& b) {
  return {std::min(a.forward, b.forward), std::min(a.forward_backward, b.forward_backward)};
}

// The shortest of each in any iteration, however long others of the same iteration are.
Phases shortest(const std::vector<Trace>& traces, const scenario::Scenario& scenario) {
  Phases least = phases(traces.front(), scenario).front();
  for (const Trace& trace : traces) {
    for (const Phases& iteration : phases(trace, scenario)) least = shorter(least, iteration);
  }
  return least;
}

// Of all ranks: everybody says the same.
Phases slowest(Rank& rank, const Phases& mine) {
  const std::array<std::int64_t, 2> both{mine.forward, mine.forward_backward};
  const Tensor all = rank.world().all_reduce(Tensor::of<std::int64_t>({2}, both), ReduceOp::max, "slowest");
  return {all.values<std::int64_t>()[0], all.values<std::int64_t>()[1]};
}

// By a clock, and so in another unit than virtual times.
void measure(Rank& rank, const std::string& what, const Phases& phases) {
  const auto microseconds = [](Nanoseconds time) { return static_cast<double>(time) / 1000; };
  rank.measure(what + "_forward_us", microseconds(phases.forward), "us");
  rank.measure(what + "_forward_backward_us", microseconds(phases.forward_backward), "us");
}

// How far what was measured is from what its order permits.
void measure_margin(Rank& rank, const Phases& measured, const Phases& expected) {
  const auto ratio = [](Nanoseconds time, Nanoseconds best) { return static_cast<double>(time) / static_cast<double>(best); };
  rank.measure("forward_margin", ratio(measured.forward, expected.forward), "x");
  rank.measure("forward_backward_margin", ratio(measured.forward_backward, expected.forward_backward), "x");
}

}  // namespace

RANKED_TEST_CASE("overlap/interleaved_timings", clauses("OVL-30", "OVL-31"), ranks(1, 2, 3, 4), needs(Feature::timeline, Feature::serial),
                 seed(training_overlap_test)) {
  const scenario::Scenario scenario = seed_stack_of(rank);
  trace::Resource resource{};
  // In turns, and not always the same one first, so that a machine that slows down slows both.
  std::vector<Trace> overlapped, serial;
  for (const bool is_serial : {false, true, true, false, false, true, true, false}) {
    scenario::SleepingStack stack = seed_stack_of(rank);
    const scenario::Run run = rank.play(is_serial ? stack.serial() : stack);
    resource = run.resource();
    (is_serial ? serial : overlapped).push_back(run.recording().clocked());
  }
  for (const Trace& again : overlapped) CHECK(trace::issued(again) == trace::issued(overlapped.front()));
  for (const Trace& again : serial) CHECK(trace::issued(again) == trace::issued(serial.front()));

  // Alone each piece takes its time; together they take what their order makes of these.
  const trace::Durations durations = trace::shortest(serial);
  const std::vector<Phases> expected = phases(trace::expected(overlapped.front(), durations, resource), scenario);
  const std::vector<Phases> one_after_the_other = phases(trace::expected(serial.front(), durations, resource), scenario);
  REQUIRE(expected.size() >= 3);
  REQUIRE(one_after_the_other.size() == expected.size());
  for (std::size_t iteration = 0; iteration < expected.size(); ++iteration) {
    CAPTURE(iteration);
    CHECK(expected[iteration].forward < one_after_the_other[iteration].forward);
    CHECK(expected[iteration].forward_backward < one_after_the_other[iteration].forward_backward);
  }

  const Phases measured = slowest(rank, shortest(overlapped, scenario));
  const Phases best = slowest(rank, std::accumulate(expected.begin(), expected.end(), expected.front(), shorter));
  measure(rank, "measured", measured);
  measure(rank, "measured_serial", slowest(rank, shortest(serial, scenario)));
  measure(rank, "expected", best);
  measure_margin(rank, measured, best);
}

}  // namespace shardproof::overlap
