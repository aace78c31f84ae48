// Does communication hide behind computation, in forward and in backward?
#include <random>
#include <vector>

#include "fixtures/oracles/overlap_times.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

namespace {

constexpr char seed_test[] = "test_fully_shard_overlap.py::test_fully_shard_training_overlap";

// The gathers and reductions that a stack's plan asks for, in one iteration. Without them a run would be fast and prove nothing.
void check_everything_was_communicated(const scenario::Run& run, const oracles::Stack& stack) {
  std::size_t gathers = 0, reductions = 0;
  if (stack.world > 1) {
    for (const oracles::StackLayer& layer : stack.layers) {
      gathers += layer.reshard_after_forward ? 2 : 1;
      ++reductions;
    }
  }
  CHECK(run.count(CollectiveKind::all_gather) == gathers);
  CHECK(run.count(CollectiveKind::reduce_scatter) == reductions);
}

// Durations of 1 to 60 ms for every layer and both kinds of collective.
scenario::SleepingStack random_stack(std::mt19937_64& random) {
  const auto duration = [&random] { return std::chrono::milliseconds(1 + random() % 60); };
  const int layers = static_cast<int>(1 + random() % 6);
  std::vector<std::chrono::nanoseconds> forward, backward;
  for (int i = 0; i < layers; ++i) {
    forward.emplace_back(duration());
    backward.emplace_back(duration());
  }
  return scenario::sleeping_stack(layers)
      .forward(forward)
      .backward(backward)
      .all_gather(duration())
      .reduce_scatter(duration())
      .reshard_after_forward(random() % 2 == 0);
}

}  // namespace

RANKED_TEST_CASE("overlap/training_overlap", clauses("OVL-1", "OVL-2", "OVL-3"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::fully_shard), seed(seed_test)) {
  const scenario::Run run = rank.play(seed_stack());
  const oracles::Stack stack = oracles::stack_of(run.scenario(), rank.world().size());
  const oracles::Bounds lower = oracles::lower_bounds(stack);
  const auto upper = oracles::seed_bounds(stack);
  rank.measure_ns("forward_ns", run.forward());
  rank.measure_ns("forward_backward_ns", run.forward_backward());
  rank.measure_ns("exposed_ns", run.exposed());

  check_everything_was_communicated(run, stack);
  REQUIRE(upper.has_value());
  CHECK(run.forward() <= upper->forward);
  CHECK(run.forward_backward() <= upper->forward_backward);
  CHECK(run.forward() >= lower.forward);
  CHECK(run.forward_backward() >= lower.forward_backward);
  check_no_race(rank, run);

  const scenario::Run serial = rank.play(seed_stack().serial());
  rank.measure_ns("serial_forward_ns", serial.forward());
  rank.measure_ns("serial_forward_backward_ns", serial.forward_backward());
  if (rank.world().size() > 1) {
    // Overlap is worth something only against a run that has none.
    CHECK(run.forward() < serial.forward());
    CHECK(run.forward_backward() < serial.forward_backward());
  }
}

RANKED_TEST_CASE("overlap/training_times", clauses("OVL-20"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::serial), tags("reference")) {
  const bool alone = rank.world().size() == 1;
  const scenario::Run run = rank.play(seed_stack());
  CHECK(std::chrono::nanoseconds(run.forward()) == (alone ? 75ms : 85ms));
  CHECK(std::chrono::nanoseconds(run.forward_backward()) == (alone ? 225ms : 245ms));
  CHECK(std::chrono::nanoseconds(run.exposed()) == (alone ? 0ms : 20ms));

  const scenario::Run serial = rank.play(seed_stack().serial());
  CHECK(std::chrono::nanoseconds(serial.forward()) == (alone ? 75ms : 105ms));
  CHECK(std::chrono::nanoseconds(serial.forward_backward()) == (alone ? 225ms : 315ms));
}

RANKED_TEST_CASE("overlap/any_costs", clauses("OVL-3", "OVL-21"), ranks(1, 2, 3, 4), each("set", 0, 1, 2, 3, 4, 5, 6, 7),
                 needs(Feature::timeline, Feature::fully_shard, Feature::serial), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  scenario::SleepingStack scenario = random_stack(random);
  const scenario::Run run = rank.play(scenario);
  const oracles::Stack stack = oracles::stack_of(run.scenario(), rank.world().size());
  const oracles::StackTimes expected = oracles::overlap_times(stack);
  const oracles::Bounds lower = oracles::lower_bounds(stack);
  rank.measure_ns("forward_ns", run.forward());
  rank.measure_ns("forward_backward_ns", run.forward_backward());
  rank.measure_ns("exposed_ns", run.exposed());

  check_everything_was_communicated(run, stack);
  CHECK(run.forward() == expected.forward);
  CHECK(run.forward_backward() == expected.forward_backward);
  CHECK(run.exposed() == expected.exposed);
  CHECK(run.forward() >= lower.forward);
  CHECK(run.forward_backward() >= lower.forward_backward);
  check_no_race(rank, run);

  const scenario::Run serial = rank.play(scenario.serial());
  CHECK(serial.forward() == expected.serial_forward);
  CHECK(serial.forward_backward() == expected.serial_forward_backward);
}

}  // namespace shardproof::overlap
