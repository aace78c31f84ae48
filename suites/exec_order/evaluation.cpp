// Forwards for evaluation between training iterations.
#include <shardproof.hpp>

#include "suites/checks/refusal.hpp"
#include "suites/exec_order/cost.hpp"
#include "suites/exec_order/scenarios.hpp"
#include "suites/exec_order/warnings.hpp"

namespace shardproof::exec_order {

using suites::play_accepted;

// Two epochs of three training iterations and three evaluations, as in the seed.
RANKED_TEST_CASE("exec_order/train_eval", clauses("EXO-3", "EXO-10"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), each("orig", false, true),
                 needs(FlatShardFeature::order_validation), needs_if("orig", true, FlatShardFeature::orig_params),
                 seed("test_fsdp_exec_order.py::test_train_eval", each("strategy", "full_shard", "shard_grad_op"))) {
  Twins twins(rank, strategy(rank), rank.param<bool>("orig"));
  for (int epoch = 0; epoch < 2; ++epoch) twins.train(Way::first, 3).evaluate(Way::first, 3);
  const Run run = play_accepted(rank, twins);
  {
    const auto judged = rank.under("EXO-3");
    check_silent(run, 0, 12);
  }
  const auto judged = rank.under("EXO-10");
  CHECK(validating_gathers(run, 0) > 0);
  for (int iteration = 1; iteration < 12; ++iteration) {
    CAPTURE(iteration);
    CHECK(validating_gathers(run, iteration) == 0);
  }
}

// Evaluation may take another way.
RANKED_TEST_CASE("exec_order/eval_of_another_way", clauses("EXO-3"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"), needs(FlatShardFeature::order_validation)) {
  Twins twins(rank, strategy(rank));
  for (int epoch = 0; epoch < 3; ++epoch) twins.train(Way::first).evaluate(Way::all_second);
  const Run run = play_accepted(rank, twins);
  check_silent(run, 0, 6);
}

// Ranks differ in an evaluation. Not for shard_grad_op: after it, each rank keeps the unit of its own way whole.
RANKED_TEST_CASE("exec_order/eval_of_different_ways", clauses("EXO-3"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "no_shard"), needs(FlatShardFeature::order_validation)) {
  Twins twins(rank, strategy(rank));
  for (int epoch = 0; epoch < 3; ++epoch) twins.train(Way::first).evaluate(Way::others_second);
  check_silent(play_accepted(rank, twins), 0, 6);
}

RANKED_TEST_CASE("exec_order/eval_first", clauses("EXO-8", "EXO-10"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"), needs(FlatShardFeature::order_validation)) {
  Twins twins(rank, strategy(rank));
  twins.evaluate(Way::all_second, 2).train(Way::first, 3).train(Way::all_second);
  const Run run = play_accepted(rank, twins);
  {
    const auto judged = rank.under("EXO-10");
    for (const int evaluation : {0, 1}) CHECK(validating_gathers(run, evaluation) == 0);
    CHECK(validating_gathers(run, 2) > 0);
  }
  const auto judged = rank.under("EXO-8");
  check_silent(run, 0, 5);
  check_warned(run, 5, rank.index(), {first_way, second_way});
}

}  // namespace shardproof::exec_order
