// Are gradients of several micro-batches reduced once, and is what a plan keeps between them really kept?
#include <utility>

#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

using scenario::Action;
using scenario::ActionKind;

namespace {

// Two steps of two micro-batches each; the switch is off in the first of them.
scenario::Scenario accumulating(ActionKind which, const std::string& module, bool reshard) {
  scenario::Scenario scenario = small_mlp({.rate = 0.25}, reshard, 1);
  const std::vector<Action> first{
      {.kind = which, .module = module, .value = false}, {ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}};
  const std::vector<Action> second{{.kind = which, .module = module, .value = true},
                                   {ActionKind::forward},
                                   {ActionKind::backward},
                                   {ActionKind::step},
                                   {ActionKind::capture},
                                   {ActionKind::zero_grad}};
  scenario.script.segments = {{.body = first}, {.body = second}, {.body = first}, {.body = second}};
  return scenario;
}

void check_values(Rank& rank, const scenario::Run& run) {
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_thirds(rank), Moves::some_parameter);
  check_sound(rank, run);
}

}  // namespace

RANKED_TEST_CASE("overlap/accumulation", clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-17"), ranks(1, 2, 3, 4),
                 each("module", "all", "l0"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::gradient_accumulation)) {
  const bool all = rank.param("module") == "all";
  const scenario::Run run = rank.play(accumulating(ActionKind::set_requires_gradient_sync, all ? "" : "l0", rank.param<bool>("reshard")));
  check_values(rank, run);
  // Two groups; in the first micro-batch of each step only those reduce that the switch leaves on.
  const bool alone = rank.world().size() == 1;
  for (const int step : {0, 2}) {
    CHECK(count_in(run, CollectiveKind::reduce_scatter, step, ActionKind::backward) == (alone || all ? 0 : 1));
    CHECK(count_in(run, CollectiveKind::reduce_scatter, step + 1, ActionKind::backward) == (alone ? 0 : 2));
  }
  check_nothing_is_left(run, 3);
}

RANKED_TEST_CASE("overlap/kept_after_backward", clauses("OVL-10", "OVL-15", "OVL-16", "OVL-18"), ranks(1, 2, 3, 4),
                 each("reshard", false, true), needs(Feature::timeline, Feature::fully_shard, Feature::gradient_accumulation)) {
  const bool reshard = rank.param<bool>("reshard"), alone = rank.world().size() == 1;
  const scenario::Run run = rank.play(accumulating(ActionKind::set_reshard_after_backward, "", reshard));
  check_values(rank, run);
  // What is kept after the first micro-batch is there in the second one's forward; every step makes new parameters.
  const std::size_t groups = alone ? 0 : 2;
  for (const int step : {0, 2}) {
    CHECK(count_in(run, CollectiveKind::all_gather, step, ActionKind::forward) == groups);
    CHECK(count_in(run, CollectiveKind::all_gather, step + 1, ActionKind::forward) == 0);
    CHECK(count_in(run, CollectiveKind::all_gather, step + 1, ActionKind::backward) == (reshard ? groups : 0));
  }
  check_nothing_is_left(run, 3);
}

RANKED_TEST_CASE("overlap/not_the_last_backward", clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3, 4),
                 each("reshard", false, true), needs(Feature::timeline, Feature::fully_shard, Feature::gradient_accumulation)) {
  scenario::Scenario scenario = accumulating(ActionKind::set_is_last_backward, "", rank.param<bool>("reshard"));
  // Until the last backward nobody may look at gradients.
  for (scenario::Script::Segment& segment : scenario.script.segments) {
    if (!segment.body.front().value) std::erase(segment.body, Action{ActionKind::capture});
  }
  const scenario::Run run = rank.play(scenario);
  check_values(rank, run);
  check_nothing_is_left(run, 3);
}

RANKED_TEST_CASE("overlap/last_backward_waits", clauses("OVL-29"), ranks(2, 3, 4), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::gradient_accumulation), tags("reference")) {
  // The last reduction of a backward has nothing to hide behind: who does not need the gradients yet does not wait for it.
  scenario::Scenario plain =
      scenario::sleeping_stack(2).forward(25ms).backward(50ms).collectives(10ms).reshard_after_forward(rank.param<bool>("reshard"));
  scenario::Scenario hurried = plain;
  hurried.script.segments.push_back(hurried.script.segments.front());
  bool last = false;
  for (scenario::Script::Segment& segment : hurried.script.segments) {
    segment.body.insert(segment.body.begin(), {.kind = ActionKind::set_is_last_backward, .value = std::exchange(last, true)});
  }
  const scenario::Run waits = rank.play(plain), goes_on = rank.play(hurried);
  CHECK(std::chrono::nanoseconds(waits.forward_backward() - goes_on.forward_backward()) == 10ms);
}

RANKED_TEST_CASE("overlap/dropped_micro_batch", clauses("OVL-10", "OVL-17"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::gradient_accumulation)) {
  // A gradient that waits for its reduction goes with the others.
  scenario::Scenario scenario = accumulating(ActionKind::set_requires_gradient_sync, "", true);
  scenario.script.segments.resize(2);
  scenario.script.segments.front().body.push_back({ActionKind::zero_grad});
  check_values(rank, rank.play(scenario));
}

}  // namespace shardproof::overlap
