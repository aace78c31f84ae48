// Compares measured times with the best possible times. Clock times do not decide the verdict: it comes from the order
// of the measurements.
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fixtures/oracles/overlap_times.hpp"
#include "harness/player/play.hpp"
#include "harness/trace/pieces.hpp"
#include "harness/trace/timeline.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/times.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

struct Phases {
  Nanoseconds forward = 0, forward_backward = 0;
};

// By iteration.
std::vector<Phases> phases(const Trace& trace, const Scenario& scenario) {
  std::vector<Phases> all;
  for (const Iteration& iteration : iterations(trace, scenario.script)) {
    all.push_back({iteration.forward(), iteration.forward_backward()});
  }
  return all;
}

Phases shorter(const Phases& a, const Phases& b) {
  return {std::min(a.forward, b.forward), std::min(a.forward_backward, b.forward_backward)};
}

// The shortest of each in any iteration, however long others of the same iteration are.
Phases shortest(const std::vector<Trace>& traces, const Scenario& scenario) {
  Phases least = phases(traces.front(), scenario).front();
  for (const Trace& trace : traces) {
    for (const Phases& iteration : phases(trace, scenario)) least = shorter(least, iteration);
  }
  return least;
}

// Two choices among the times of a piece that runs several times.
Nanoseconds shorter_time(Nanoseconds a, Nanoseconds b) { return std::min(a, b); }
Nanoseconds longer_time(Nanoseconds a, Nanoseconds b) { return std::max(a, b); }

// The scenario's stack, whose layers and collectives take the times that they took alone. The seed's model has one
// linear in each layer.
oracles::Stack stack_at(const Scenario& scenario, const trace::Durations& durations,
                        Nanoseconds (*choose)(Nanoseconds, Nanoseconds)) {
  const auto time_of = [&](std::variant<WorkKind, CollectiveKind> kind, const std::string& label) {
    std::optional<Nanoseconds> chosen;
    for (const auto& [piece, time] : durations) {
      if (piece.kind == kind && piece.label == label) chosen = chosen ? choose(*chosen, time) : time;
    }
    INFO(label);
    REQUIRE(chosen);
    return *chosen;
  };
  constexpr int several = 2;  // a world of one rank imagines a second one
  oracles::Stack stack = oracles::stack_of(scenario, several);
  for (std::size_t i = 0; i < stack.layers.size(); ++i) {
    const std::string& path = scenario.model.root.children.at(i).name;
    oracles::StackLayer& layer = stack.layers[i];
    layer.forward = time_of(WorkKind::forward, path + ".linear");
    layer.backward = time_of(WorkKind::backward, path + ".linear");
    layer.all_gather = time_of(CollectiveKind::all_gather, path);
    layer.reduce_scatter = time_of(CollectiveKind::reduce_scatter, path);
  }
  return stack;
}

// The slowest times of all ranks, the same on every rank.
Phases slowest(Rank& rank, const Phases& mine) {
  const std::array<std::int64_t, 2> both{mine.forward, mine.forward_backward};
  const Tensor all = rank.world().all_reduce(Tensor::of<std::int64_t>({2}, both), ReduceOp::max, "slowest");
  return {all.values<std::int64_t>()[0], all.values<std::int64_t>()[1]};
}

// Reports times of a real clock, in another unit than virtual times.
void measure(Rank& rank, const std::string& what, const Phases& phases) {
  const auto microseconds = [](Nanoseconds time) { return static_cast<double>(time) / 1000; };
  rank.measure(what + "_forward_us", microseconds(phases.forward), "us");
  rank.measure(what + "_forward_backward_us", microseconds(phases.forward_backward), "us");
}

// How far what was measured is from what its order permits.
void measure_margin(Rank& rank, const Phases& measured, const Phases& expected) {
  const auto ratio = [](Nanoseconds time, Nanoseconds best) {
    return static_cast<double>(time) / static_cast<double>(best);
  };
  rank.measure("forward_margin", ratio(measured.forward, expected.forward), "x");
  rank.measure("forward_backward_margin", ratio(measured.forward_backward, expected.forward_backward), "x");
}

}  // namespace

RANKED_TEST_CASE("overlap/interleaved_timings", clauses("OVL-30", "OVL-31"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::serial), seed(training_overlap_test)) {
  const Scenario scenario = seed_stack_of(rank);
  trace::Resource resource{};
  // In turns, and not always the same one first, so that a machine that slows down slows both.
  std::vector<Trace> overlapped, serial;
  for (const bool is_serial : {false, true, true, false, false, true, true, false}) {
    SleepingStack stack = seed_stack_of(rank);
    const Run run = play(rank, is_serial ? stack.serial() : stack);
    if (overlapped.empty() && !is_serial) check_no_race(rank, run);
    resource = run.resource();
    (is_serial ? serial : overlapped).push_back(run.recording().clocked());
  }
  {
    const auto judged = rank.under("OVL-31");
    for (const Trace& again : overlapped) CHECK(trace::issued(again) == trace::issued(overlapped.front()));
    for (const Trace& again : serial) CHECK(trace::issued(again) == trace::issued(serial.front()));
  }

  // Alone each piece takes its time. Together they take what the engine's order makes of these times, and that is
  // judged by the closed form of a stack whose layers take these times.
  const trace::Durations durations = trace::shortest(serial);
  const Trace ordered_trace = trace::expected(overlapped.front(), durations, resource);
  const std::vector<Iteration> ordered = iterations(ordered_trace, scenario.script);
  const oracles::Stack fastest = stack_at(scenario, durations, shorter_time),
                       slowest_stack = stack_at(scenario, durations, longer_time);
  const oracles::Bounds least = oracles::lower_bounds(fastest);
  const std::optional<oracles::Bounds> most = oracles::seed_bounds(slowest_stack);
  const oracles::StackTimes one_after_the_other = oracles::overlap_times(fastest);
  REQUIRE(most.has_value());
  REQUIRE(ordered.size() >= 3);
  std::vector<Phases> expected;
  for (const Iteration& iteration : ordered) {
    const Phases phases = expected.emplace_back(Phases{iteration.forward(), iteration.forward_backward()});
    const auto judged = rank.under("OVL-30");
    check_time(iteration, "forward", phases.forward, Limit::at_most, most->forward);
    check_time(iteration, "forward", phases.forward, Limit::at_least, least.forward);
    check_time(iteration, "forward", phases.forward, Limit::less_than, one_after_the_other.serial_forward);
    check_time(iteration, "forward and backward", phases.forward_backward, Limit::at_most, most->forward_backward);
    check_time(iteration, "forward and backward", phases.forward_backward, Limit::at_least, least.forward_backward);
    check_time(iteration, "forward and backward", phases.forward_backward, Limit::less_than,
               one_after_the_other.serial_forward_backward);
  }

  const Phases measured = slowest(rank, shortest(overlapped, scenario));
  const Phases best = slowest(rank, std::accumulate(expected.begin(), expected.end(), expected.front(), shorter));
  measure(rank, "measured", measured);
  measure(rank, "measured_serial", slowest(rank, shortest(serial, scenario)));
  measure(rank, "expected", best);
  measure_margin(rank, measured, best);
}

}  // namespace shardproof::overlap
