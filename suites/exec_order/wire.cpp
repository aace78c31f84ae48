// The communication between ranks: without validation, with tags that the harness enforces, and with an absent rank.
#include <shardproof.hpp>

#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/player/play.hpp"
#include "harness/player/player.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/exec_order/cost.hpp"
#include "suites/exec_order/scenarios.hpp"
#include "suites/exec_order/warnings.hpp"

namespace shardproof::exec_order {

using namespace suites;

namespace {

// The error text of a play that ranks cannot finish together: the harness's text, or the subject's text without its
// rank. Cases do not look for an engine's own error. Empty if the play succeeds.
std::string mismatch(Rank& rank, const Scenario& scenario) {
  try {
    play(rank, scenario);
  } catch (const Mismatch& error) {
    return error.what();
  } catch (const player::SubjectError& error) {
    return error.on_any_rank();
  }
  return {};
}

void check_names(const std::string& text, const std::vector<std::string>& names) {
  for (const std::string& name : names) CHECK_THAT(text, Catch::Matchers::ContainsSubstring(name));
}

Scenario one_forward(Twins twins) {
  Scenario scenario = twins.forward(Way::others_second);
  scenario.script.segments.back().body.push_back({.kind = ActionKind::capture});
  return scenario;
}

}  // namespace

// The trap that the suite rests on: nothing notices the mismatch, and some rank computes with wrong parameters.
RANKED_TEST_CASE("exec_order/silent_mismatch", clauses("EXO-11"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"), needs(FlatShardFeature::order_validation)) {
  const Scenario scenario = one_forward(Twins(rank, strategy(rank)).validate(false));
  const Run run = play_accepted(rank, scenario);
  check_silent(run, 0, 1);
  CHECK(validating_gathers(run, 0) == 0);
  REQUIRE(run.captures().size() == 1);
  const auto expected = oracles::train_serially(scenario, rank.world().size(), oracles::Arithmetic::f64);
  REQUIRE(expected.size() == 1);
  const bool is_right =
      run.captures().front().loss == expected.front().losses.at(static_cast<std::size_t>(rank.index()));
  CHECK(sum_over_ranks(rank, is_right ? 0 : 1) > 0);
}

// A deviation of which an engine that validates warns.
RANKED_TEST_CASE("exec_order/silent_deviation", clauses("EXO-11"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 needs(FlatShardFeature::order_validation)) {
  const auto twins = [&](bool validates) {
    return Twins(rank, strategy(rank)).validate(validates).train(Way::first, 2).train(Way::all_second);
  };
  check_warned(play_accepted(rank, twins(true)), 2, rank.index(), {first_way, second_way});
  const Run run = play_accepted(rank, twins(false));
  check_silent(run, 0, 3);
  for (int iteration = 0; iteration < 3; ++iteration) CHECK(validating_gathers(run, iteration) == 0);
}

RANKED_TEST_CASE("exec_order/enforced_tags", clauses("EXO-12"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op"), needs(FlatShardFeature::order_validation)) {
  const auto twins = [&] { return Twins(rank, strategy(rank)).validate(false).enforce_tags(); };
  CHECK(mismatch(rank, twins().train(Way::first, 3)).empty());
  check_names(mismatch(rank, one_forward(twins())), {"rank 0", "rank 1", first_way, second_way});
}

// Enforced in a later iteration, too, which no validation stops.
RANKED_TEST_CASE("exec_order/enforced_tags_later", clauses("EXO-12"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 needs(FlatShardFeature::order_validation)) {
  Twins twins(rank, strategy(rank));
  twins.enforce_tags().train(Way::first, 2).train(Way::others_second);
  check_names(mismatch(rank, twins), {"rank 0", "rank 1", first_way, second_way});
}

RANKED_TEST_CASE("exec_order/absent_rank", clauses("EXO-9"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 needs(FlatShardFeature::order_validation)) {
  skip_unless_calls_are_compared(rank);
  const int absent = rank.world().size() - 1;
  std::string text = mismatch(rank, Twins(rank, strategy(rank)).train_without_last_rank());
  if (rank.index() == absent) {
    // It has nothing to do, and waits for the others, which wait for it.
    REQUIRE(text.empty());
    try {
      rank.world().barrier("after the script");
    } catch (const Mismatch& error) {
      text = error.what();
    }
  }
  check_names(text, {"rank " + std::to_string(absent), "after the script"});
}

RANKED_TEST_CASE("exec_order/steady_order", clauses("EXO-13"), ranks(2, 3, 4),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 needs(Feature::timeline, FlatShardFeature::order_validation)) {
  const Run run = play_accepted(rank, Twins(rank, strategy(rank)).train(Way::first, 4));
  check_same_order(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    std::vector<std::string> reduced;
    for (const fact::Collective& call : iteration.collectives(ActionKind::backward)) {
      if (call.kind != CollectiveKind::all_gather) reduced.push_back(call.tag);
    }
    CHECK(reduced == std::vector<std::string>{first_way, ""});
  }
}

}  // namespace shardproof::exec_order
