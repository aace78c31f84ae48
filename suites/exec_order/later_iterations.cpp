// Ranks that deviate from their own first iteration.
#include <shardproof.hpp>

#include "suites/checks/refusal.hpp"
#include "suites/exec_order/scenarios.hpp"
#include "suites/exec_order/warnings.hpp"

namespace shardproof::exec_order {

using suites::play_accepted;

namespace {

constexpr const char* later_iter_test = "test_fsdp_exec_order.py::test_invalid_later_iter_order";

}  // namespace

// In the iterations that deviate, ranks exchange parts of different modules: their sizes are equal, and the values are
// not judged.
RANKED_TEST_CASE("exec_order/invalid_later_iter", clauses("EXO-2"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), each("after", 1, 3),
                 each("orig", false, true), needs(FlatShardFeature::order_validation),
                 needs_if("orig", true, FlatShardFeature::orig_params),
                 seed(later_iter_test, each("strategy", "full_shard", "shard_grad_op"), each("after", 1, 3))) {
  const int after = rank.param<int>("after"), deviating = 2;
  const Run run = play_accepted(rank, Twins(rank, strategy(rank), rank.param<bool>("orig"))
                                          .train(Way::first, after)
                                          .train(Way::others_second, deviating));
  check_silent(run, 0, after);
  if (deviates(rank)) {
    check_warned(run, after, rank.index(), {first_way, second_way});
  } else {
    check_silent(run, after, after + deviating);
  }
}

// Each iteration has two forwards, and ranks deviate in the second one.
RANKED_TEST_CASE("exec_order/invalid_later_forward", clauses("EXO-2"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"),
                 needs(FlatShardFeature::order_validation, Feature::gradient_accumulation)) {
  const Run run = play_accepted(rank, Twins(rank, strategy(rank))
                                          .train_on_two(Way::all_second, 2)
                                          .train_on_two(Way::first)
                                          .train_on_two(Way::all_second));
  check_silent(run, 0, 2);
  check_warned(run, 2, rank.index(), {first_way, second_way});
  check_silent(run, 3, 4);
}

RANKED_TEST_CASE("exec_order/silent_after_warning", clauses("EXO-20"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"), each("after", 1, 3),
                 needs(FlatShardFeature::order_validation), tags("reference"),
                 seed(later_iter_test, each("strategy", "full_shard", "shard_grad_op"), each("after", 1, 3))) {
  const int after = rank.param<int>("after"), deviating = 4;
  const Run run =
      play_accepted(rank, Twins(rank, strategy(rank)).train(Way::first, after).train(Way::others_second, deviating));
  CHECK(warnings(run, after).size() == (deviates(rank) ? 1 : 0));
  check_silent(run, after + 1, after + deviating);
}

RANKED_TEST_CASE("exec_order/warns_again", clauses("EXO-6"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"), needs(FlatShardFeature::order_validation)) {
  Twins twins(rank, strategy(rank));
  twins.train(Way::first, 2).train(Way::others_second).train(Way::first, 2).train(Way::others_second).train(Way::first);
  const Run run = play_accepted(rank, twins);
  for (const int deviating : {2, 5}) {
    if (deviates(rank)) {
      check_warned(run, deviating, rank.index(), {first_way, second_way});
    } else {
      check_silent(run, deviating, deviating + 1);
    }
  }
  check_silent(run, 3, 5);
  check_silent(run, 6, 7);
}

namespace {

// All ranks deviate in the same way in the third of four iterations. Each compares with its own first iteration.
void check_one_warning(Rank& rank, const Twins& twins) {
  const Run run = play_accepted(rank, twins);
  check_silent(run, 0, 2);
  check_warned(run, 2, rank.index(), {"way.second.more"});
  check_silent(run, 3, 4);
}

}  // namespace

RANKED_TEST_CASE("exec_order/longer_order", clauses("EXO-4"), ranks(1, 2, 3, 4), more_ranks(8, 16, 32, 64),
                 each("strategy", "full_shard", "shard_grad_op"),
                 needs(FlatShardFeature::order_validation, Feature::module_groups)) {
  Twins twins(rank, strategy(rank));
  twins.second_way_is_longer().train(Way::first, 2).train(Way::all_second).train(Way::first);
  check_one_warning(rank, twins);
}

RANKED_TEST_CASE("exec_order/shorter_order", clauses("EXO-5"), ranks(1, 2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"),
                 needs(FlatShardFeature::order_validation, Feature::module_groups)) {
  Twins twins(rank, strategy(rank));
  twins.second_way_is_longer().train(Way::all_second, 2).train(Way::first).train(Way::all_second);
  check_one_warning(rank, twins);
}

RANKED_TEST_CASE("exec_order/used_twice", clauses("EXO-7"), ranks(1, 2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 needs(FlatShardFeature::order_validation, Feature::module_groups)) {
  Twins twins(rank, strategy(rank));
  twins.first_way_runs_twice().train(Way::first, 4);
  check_silent(play_accepted(rank, twins), 0, 4);
  // The same plan validates: it does not merely say nothing.
  Twins deviating(rank, strategy(rank));
  deviating.first_way_runs_twice().train(Way::first, 2).train(Way::all_second);
  check_warned(play_accepted(rank, deviating), 2, rank.index(), {first_way, second_way});
}

}  // namespace shardproof::exec_order
