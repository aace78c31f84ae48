// Failing forwards: the order of execution continues without them.
#include <shardproof.hpp>

#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/exec_order/cost.hpp"
#include "suites/exec_order/scenarios.hpp"
#include "suites/exec_order/warnings.hpp"

namespace shardproof::exec_order {

using namespace suites;

namespace {

// A forward that fails in the last module, when all units of its way have run.
Action failing(bool second_way) {
  Action forward{.kind = ActionKind::forward, .fails_in = "end"};
  if (second_way) forward.paths = {{"way", "second"}};
  return forward;
}

// The failing forward itself may warn: its units are gathered in another order.
void check_silent_elsewhere(const Run& run, int iteration) {
  CAPTURE(iteration);
  for (const Warning& warning : warnings(run, iteration)) {
    INFO(to_string(warning));
    CHECK(warning.call == "failing forward");
  }
}

}  // namespace

// In the first iteration, before its own forward or between that and the backward.
RANKED_TEST_CASE("exec_order/failed_in_first_iter", clauses("EXO-2", "EXO-10", "EXO-16"), ranks(1, 2, 3),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("when", "before_forward", "before_backward"),
                 needs(FlatShardFeature::order_validation, Feature::failed_forward)) {
  Twins twins(rank, strategy(rank));
  twins.train(Way::first).fail_in(0, rank.param("when") == "before_forward" ? 0 : 1, failing(true));
  twins.train(Way::first, 3).train(Way::all_second);
  const Run run = play_accepted(rank, twins);
  {
    const auto judged = rank.under("EXO-2", "EXO-16");
    check_silent(run, 0, 4);
    check_warned(run, 4, rank.index(), {first_way, second_way});
  }
  const auto judged = rank.under("EXO-10");
  if (rank.world().size() > 1) CHECK(validating_gathers(run, 0) > 0);
  for (int iteration = 1; iteration < 5; ++iteration) {
    CAPTURE(iteration);
    CHECK(validating_gathers(run, iteration) == 0);
  }
}

// In a later iteration, and also on another way. The iteration after that deviates, which is a new deviation.
RANKED_TEST_CASE("exec_order/failed_in_later_iter", clauses("EXO-2", "EXO-14", "EXO-16"), ranks(1, 2, 3),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), each("way", "first", "second"),
                 needs(Feature::timeline, FlatShardFeature::order_validation, Feature::failed_forward)) {
  Twins twins(rank, strategy(rank));
  twins.train(Way::first, 2).train(Way::first).fail_in(1, 0, failing(rank.param("way") == "second"));
  twins.train(Way::all_second).train(Way::first);
  const Run run = play_accepted(rank, twins);
  const auto judged = rank.under("EXO-2", "EXO-16");
  check_silent(run, 0, 2);
  check_silent_elsewhere(run, 2);
  check_warned(run, 3, rank.index(), {first_way, second_way});
  check_silent(run, 4, 5);
  check_training(rank, run, oracles::Arithmetic::f32, {.loss = 0.1, .gradient = 0.1, .parameter = 0.01},
                 Moves::some_parameter);
  check_sound(rank, run);
}

}  // namespace shardproof::exec_order
