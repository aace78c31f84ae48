// Ranks that run different modules in the first iteration.
#include <shardproof.hpp>

#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/exec_order/scenarios.hpp"
#include "suites/exec_order/warnings.hpp"

namespace shardproof::exec_order {

SUITE_ENGINE("exec_order", "flat_shard");

using namespace suites;

RANKED_TEST_CASE("exec_order/invalid_first_iter", clauses("EXO-1"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), each("orig", false, true),
                 needs(FlatShardFeature::order_validation), needs_if("orig", true, FlatShardFeature::orig_params),
                 seed("test_fsdp_exec_order.py::test_invalid_first_iter_order",
                      each("strategy", "full_shard", "shard_grad_op"))) {
  const auto twins = [&] { return Twins(rank, strategy(rank), rank.param<bool>("orig")); };
  // The refusal is of the deviation alone.
  const Run right = play_accepted(rank, twins().train(Way::first, 3));
  check_silent(right, 0, 3);
  check_refused(rank, twins().train(Way::others_second), "forward", {"rank 0", "rank 1", first_way, second_way});
  // With enforced tags, a gather before the comparison ends in an error of the fabric instead.
  check_refused(rank, twins().enforce_tags().train(Way::others_second), "forward",
                {"rank 0", "rank 1", first_way, second_way});
}

RANKED_TEST_CASE("exec_order/invalid_after_evaluation", clauses("EXO-1", "EXO-8"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"), needs(FlatShardFeature::order_validation)) {
  check_refused(rank, Twins(rank, strategy(rank)).evaluate(Way::first).train(Way::others_second), "forward",
                {"rank 0", "rank 1", first_way, second_way});
}

// Ranks differ in the second forward of the first iteration.
RANKED_TEST_CASE("exec_order/invalid_second_forward", clauses("EXO-1"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"),
                 needs(FlatShardFeature::order_validation, Feature::gradient_accumulation)) {
  check_silent(play_accepted(rank, Twins(rank, strategy(rank)).train_on_two(Way::first, 3)), 0, 3);
  check_refused(rank, Twins(rank, strategy(rank)).train_on_two(Way::others_second), "forward",
                {"rank 0", "rank 1", first_way, second_way});
}

RANKED_TEST_CASE("exec_order/trains_on_two_forwards", clauses("EXO-13", "EXO-14", "OVL-35"), ranks(2),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 needs(Feature::timeline, FlatShardFeature::order_validation, Feature::gradient_accumulation)) {
  const Run run = play_accepted(rank, Twins(rank, strategy(rank)).train_on_two(Way::all_second, 3));
  // Gradients of two forwards make values of some thousands.
  constexpr Tolerance large_values{.loss = 1, .gradient = 0.1, .parameter = 0.01, .exact = 1};
  check_training(rank, run, oracles::Arithmetic::f32, large_values, Moves::some_parameter);
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-35");
    CHECK(iteration.peak(MemoryClass::shard).bytes ==
          iteration.live_before(MemoryClass::shard, ActionKind::forward).bytes);
    check_nothing_is_left(rank, run, iteration.index());
  }
}

RANKED_TEST_CASE("exec_order/trains_as_without", clauses("EXO-13", "EXO-14"), ranks(1, 2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), each("orig", false, true),
                 each("validates", false, true), needs(Feature::timeline, FlatShardFeature::order_validation),
                 needs_if("orig", true, FlatShardFeature::orig_params)) {
  Twins twins(rank, strategy(rank), rank.param<bool>("orig"));
  const Run run = play_accepted(rank, twins.validate(rank.param<bool>("validates")).train(Way::first, 3));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank), Moves::some_parameter);
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) check_nothing_is_left(rank, run, iteration.index());
}

}  // namespace shardproof::exec_order
