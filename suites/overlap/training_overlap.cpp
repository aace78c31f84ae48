// Communication must overlap with computation, in the forward and the backward of every iteration.
#include <algorithm>
#include <random>
#include <variant>
#include <vector>

#include "fixtures/oracles/overlap_times.hpp"
#include "harness/player/play.hpp"
#include "suites/checks/race_parts.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/times.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

SUITE_ENGINE("overlap", "fully_shard");

using namespace suites;

namespace {

int between(std::mt19937_64& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1));
}

std::chrono::milliseconds duration(std::mt19937_64& random, int least, int most) {
  return std::chrono::milliseconds(between(random, least, most));
}

// Durations of 1 to 60 ms for every layer and both kinds of collective; three iterations.
SleepingStack random_stack(std::mt19937_64& random) {
  const int layers = between(random, 1, 6);
  std::vector<std::chrono::nanoseconds> forward, backward;
  for (int i = 0; i < layers; ++i) {
    forward.emplace_back(duration(random, 1, 60));
    backward.emplace_back(duration(random, 1, 60));
  }
  const auto all_gather = duration(random, 1, 60), reduce_scatter = duration(random, 1, 60);
  return sleeping_stack(layers)
      .forward(forward)
      .backward(backward)
      .all_gather(all_gather)
      .reduce_scatter(reduce_scatter)
      .reshard_after_forward(random() % 2 == 0)
      .iterations(3);
}

// As unequal, but every layer computes at least as long as the collectives that run at the same time. So all
// collectives except the first and the last can overlap. There are two layers or more, and no collective is shorter
// than the seed's margin. Otherwise an engine without overlap would pass.
SleepingStack random_stack_that_hides(std::mt19937_64& random) {
  const int layers = between(random, 2, 6);
  const auto all_gather = duration(random, 3, 12), reduce_scatter = duration(random, 3, 12);
  std::vector<std::chrono::nanoseconds> forward, backward;
  for (int i = 0; i < layers; ++i) {
    forward.emplace_back(all_gather + duration(random, 0, 40));
    backward.emplace_back(all_gather + reduce_scatter + duration(random, 0, 60));
  }
  return sleeping_stack(layers)
      .forward(forward)
      .backward(backward)
      .all_gather(all_gather)
      .reduce_scatter(reduce_scatter)
      .reshard_after_forward(random() % 2 == 0)
      .iterations(3);
}

// Checks that no iteration is slower than the seed's margins permit, and that no iteration is faster than the plan
// permits.
void check_within_bounds(Rank& rank, const Run& run) {
  check_no_race(rank, run);  // a wait that is missing makes a run faster
  const oracles::Stack stack = oracles::stack_of(run.scenario(), rank.world().size());
  const oracles::Bounds lower = oracles::lower_bounds(stack);
  const auto upper = oracles::seed_bounds(stack);
  REQUIRE(upper.has_value());
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    {
      const auto judged = rank.under("OVL-1");
      check_time(iteration, "forward", iteration.forward(), Limit::at_most, upper->forward);
    }
    {
      const auto judged = rank.under("OVL-2");
      check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_most,
                 upper->forward_backward);
    }
    const auto judged = rank.under("OVL-3");
    check_time(iteration, "forward", iteration.forward(), Limit::at_least, lower.forward);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_least,
               lower.forward_backward);
  }
  const auto judged = rank.under("OVL-3");
  check_plan_is_communicated(rank, run);
}

// The time of the slowest iteration.
Nanoseconds longest(const Run& run, Nanoseconds (Iteration::*time)() const) {
  Nanoseconds longest = 0;
  for (const Iteration& iteration : run.iterations()) longest = std::max(longest, (iteration.*time)());
  return longest;
}

void measure(Rank& rank, const Run& run) {
  rank.measure_ns("forward_ns", longest(run, &Iteration::forward));
  rank.measure_ns("forward_backward_ns", longest(run, &Iteration::forward_backward));
  rank.measure_ns("exposed_ns", longest(run, &Iteration::exposed));
}

}  // namespace

RANKED_TEST_CASE("overlap/training_overlap", clauses("OVL-1", "OVL-2", "OVL-3", "OVL-4", "OVL-6", "OVL-7"),
                 ranks(1, 2, 3, 4), more_ranks(8, 16, 32, 64), needs(Feature::timeline, Feature::serial),
                 seed(training_overlap_test)) {
  const Run run = play(rank, seed_stack());
  measure(rank, run);
  check_within_bounds(rank, run);

  const Run serial = play(rank, seed_stack().serial());
  rank.measure_ns("serial_forward_ns", longest(serial, &Iteration::forward));
  rank.measure_ns("serial_forward_backward_ns", longest(serial, &Iteration::forward_backward));
  if (rank.world().size() == 1) return;
  // The overlap is proven only if a run without overlap is slower.
  const std::vector<Iteration> overlapped = steady_iterations(run), one_after_the_other = steady_iterations(serial);
  for (std::size_t i = 0; i < overlapped.size(); ++i) {
    CAPTURE(i);
    {
      const auto judged = rank.under("OVL-1");
      check_time(overlapped[i], "forward", overlapped[i].forward(), Limit::less_than, one_after_the_other[i].forward());
    }
    const auto judged = rank.under("OVL-2");
    check_time(overlapped[i], "forward and backward", overlapped[i].forward_backward(), Limit::less_than,
               one_after_the_other[i].forward_backward());
  }
}

RANKED_TEST_CASE("overlap/training_times", clauses("OVL-20", "OVL-24"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::serial), tags("reference")) {
  const bool alone = rank.world().size() == 1;
  const Run run = play(rank, seed_stack());
  check_no_race(rank, run);
  check_nothing_else_is_communicated(rank, run);
  const auto judged = rank.under("OVL-20");
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_time(iteration, "forward", iteration.forward(), Limit::exactly, alone ? 75ms : 85ms);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly, alone ? 225ms : 245ms);
    check_time(iteration, "communication that is exposed", iteration.exposed(), Limit::exactly, alone ? 0ms : 20ms);
  }

  const Run serial = play(rank, seed_stack().serial());
  for (const Iteration& iteration : steady_iterations(serial)) {
    CAPTURE(iteration.index());
    check_time(iteration, "forward", iteration.forward(), Limit::exactly, alone ? 75ms : 105ms);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly, alone ? 225ms : 315ms);
  }
}

RANKED_TEST_CASE("overlap/any_costs_bounds", clauses("OVL-1", "OVL-2", "OVL-3"), ranks(1, 2, 3, 4),
                 each("set", 0, 1, 2, 3, 4, 5, 6, 7), needs(Feature::timeline)) {
  std::mt19937_64 random(rank.seed());
  const Run run = play(rank, random_stack_that_hides(random));
  measure(rank, run);
  check_within_bounds(rank, run);
}

RANKED_TEST_CASE("overlap/any_depth", clauses("OVL-21", "OVL-24"), ranks(1, 2, 3, 4),
                 each("set", 0, 1, 2, 3, 4, 5, 6, 7), needs(Feature::timeline, FullyShardFeature::prefetch_lists),
                 tags("reference")) {
  std::mt19937_64 random(rank.seed());
  SleepingStack stack = random_stack(random);
  stack.prefetch(between(random, 0, 3), between(random, 0, 3));
  const Run run = play(rank, stack);
  check_no_race(rank, run);
  const oracles::Stack layers = oracles::stack_of(run.scenario(), rank.world().size());
  const oracles::StackTimes expected = oracles::overlap_times(layers);
  const oracles::Bounds lower = oracles::lower_bounds(layers);
  measure(rank, run);
  check_nothing_else_is_communicated(rank, run);
  const auto judged = rank.under("OVL-21");
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_time(iteration, "forward", iteration.forward(), Limit::exactly, expected.forward);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly,
               expected.forward_backward);
    check_time(iteration, "forward", iteration.forward(), Limit::at_least, lower.forward);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_least,
               lower.forward_backward);
  }
}

// While one group is gathered, the part of the next group is packed.
RANKED_TEST_CASE("overlap/any_packing", clauses("OVL-21"), ranks(2, 3, 4), each("set", 0, 1, 2, 3),
                 needs(Feature::timeline), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  // Layers that gather for longer than they compute: packing is on the way to the next layer, unless it runs during a
  // gather.
  const auto all_gather = duration(random, 20, 40), packing = duration(random, 5, 15);
  const Run run = play(rank, sleeping_stack(between(random, 3, 6))
                                 .forward(duration(random, 1, 10))
                                 .backward(duration(random, 1, 10))
                                 .all_gather(all_gather)
                                 .copy_in(packing)
                                 .iterations(3));
  oracles::Stack stack = oracles::stack_of(run.scenario(), rank.world().size());
  if (std::ranges::none_of(run.trace().facts, [](const Fact& fact) { return is_work(fact, WorkKind::copy_in); }))
    stack.packing = 0;  // it gathers shards from where they lie
  const oracles::StackTimes expected = oracles::overlap_times(stack);
  check_no_race(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_time(iteration, "forward", iteration.forward(), Limit::exactly, expected.forward);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly,
               expected.forward_backward);
  }
}

RANKED_TEST_CASE("overlap/any_costs", clauses("OVL-21", "OVL-24"), ranks(1, 2, 3, 4),
                 each("set", 0, 1, 2, 3, 4, 5, 6, 7), needs(Feature::timeline, Feature::serial), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  SleepingStack scenario = random_stack(random);
  const Run run = play(rank, scenario);
  check_no_race(rank, run);
  const oracles::StackTimes expected = oracles::overlap_times(oracles::stack_of(run.scenario(), rank.world().size()));
  measure(rank, run);
  check_nothing_else_is_communicated(rank, run);
  const auto judged = rank.under("OVL-21");
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_time(iteration, "forward", iteration.forward(), Limit::exactly, expected.forward);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly,
               expected.forward_backward);
    check_time(iteration, "communication that is exposed", iteration.exposed(), Limit::exactly, expected.exposed);
  }

  const Run serial = play(rank, scenario.serial());
  for (const Iteration& iteration : steady_iterations(serial)) {
    CAPTURE(iteration.index());
    check_time(iteration, "forward", iteration.forward(), Limit::exactly, expected.serial_forward);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly,
               expected.serial_forward_backward);
  }
}

}  // namespace shardproof::overlap
