// Are gradients of several micro-batches reduced once, and is what a plan keeps between them really kept?
#include <string>
#include <vector>

#include "harness/player/play.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

constexpr int steps = 3;

// The iterations of a step: one for each of two micro-batches.
struct MicroBatches {
  Iteration first, second;
};

std::vector<MicroBatches> micro_batches(const Run& run) {
  const std::vector<Iteration> iterations = steady_iterations(run);
  std::vector<MicroBatches> all;
  for (std::size_t i = 0; i + 1 < iterations.size(); i += 2) all.push_back({iterations[i], iterations[i + 1]});
  REQUIRE(all.size() == steps);
  return all;
}

// Three steps of two micro-batches each; the switch is off in the first of them.
Scenario accumulating(ActionKind which, const std::string& module, bool reshard) {
  Scenario scenario = small_mlp({.rate = 0.25}, reshard, 1);
  const std::vector<Action> first{{.kind = which, .module = module, .value = false},
                                  {ActionKind::forward},
                                  {ActionKind::backward},
                                  {ActionKind::capture}};
  const std::vector<Action> second{{.kind = which, .module = module, .value = true},
                                   {ActionKind::forward},
                                   {ActionKind::backward},
                                   {ActionKind::step},
                                   {ActionKind::capture},
                                   {ActionKind::zero_grad}};
  scenario.script.segments.clear();
  for (int step = 0; step < steps; ++step) {
    scenario.script.segments.push_back({.body = first});
    scenario.script.segments.push_back({.body = second});
  }
  return scenario;
}

void check_values(Rank& rank, const Run& run) {
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank), Moves::some_parameter);
  check_sound(rank, run);
}

}  // namespace

RANKED_TEST_CASE("overlap/accumulation", clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-17"),
                 ranks(1, 2, 3, 4), each("module", "all", "l0"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::gradient_accumulation)) {
  const bool all = rank.param("module") == "all";
  const Run run =
      play(rank, accumulating(ActionKind::set_requires_gradient_sync, all ? "" : "l0", rank.param<bool>("reshard")));
  check_values(rank, run);
  // Two groups; in the first micro-batch of each step only those reduce that the switch leaves on.
  const bool alone = rank.world().size() == 1;
  for (const auto& [first, second] : micro_batches(run)) {
    CAPTURE(first.index());
    const auto judged = rank.under("OVL-17");
    check_count(first, CollectiveKind::reduce_scatter, ActionKind::backward, alone || all ? 0 : 1);
    check_count(second, CollectiveKind::reduce_scatter, ActionKind::backward, alone ? 0 : 2);
    check_nothing_is_left(rank, run, second.index());
  }
}

RANKED_TEST_CASE("overlap/kept_after_backward", clauses("OVL-10", "OVL-15", "OVL-16", "OVL-18"), ranks(1, 2, 3, 4),
                 each("reshard", false, true), needs(Feature::timeline, Feature::gradient_accumulation)) {
  const bool reshard = rank.param<bool>("reshard"), alone = rank.world().size() == 1;
  const Run run = play(rank, accumulating(ActionKind::set_reshard_after_backward, "", reshard));
  check_values(rank, run);
  // Parameters that are kept after the first micro-batch are whole in the second one's forward. Every step makes new
  // parameters.
  const std::size_t groups = alone ? 0 : 2;
  for (const auto& [first, second] : micro_batches(run)) {
    CAPTURE(first.index());
    const auto judged = rank.under("OVL-18");
    check_count(first, CollectiveKind::all_gather, ActionKind::forward, groups);
    check_count(second, CollectiveKind::all_gather, ActionKind::forward, 0);
    check_count(second, CollectiveKind::all_gather, ActionKind::backward, reshard ? groups : 0);
    check_nothing_is_left(rank, run, second.index());
  }
}

RANKED_TEST_CASE("overlap/not_the_last_backward", clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-16"),
                 ranks(1, 2, 3, 4), each("reshard", false, true),
                 needs(Feature::timeline, Feature::gradient_accumulation)) {
  Scenario scenario = accumulating(ActionKind::set_is_last_backward, "", rank.param<bool>("reshard"));
  // The script must not capture gradients before the last backward.
  for (Script::Segment& segment : scenario.script.segments) {
    if (!segment.body.front().value) std::erase(segment.body, Action{ActionKind::capture});
  }
  const Run run = play(rank, scenario);
  check_values(rank, run);
  for (const auto& [first, second] : micro_batches(run)) check_nothing_is_left(rank, run, second.index());
}

RANKED_TEST_CASE("overlap/last_backward_waits", clauses("OVL-29"), ranks(2, 3, 4), each("reshard", false, true),
                 needs(Feature::timeline, Feature::gradient_accumulation), tags("reference")) {
  // No computation overlaps with the last reduction of a backward. An iteration that does not need the gradients yet
  // must not wait for it.
  const Scenario plain = sleeping_stack(2)
                             .forward(25ms)
                             .backward(50ms)
                             .collectives(10ms)
                             .reshard_after_forward(rank.param<bool>("reshard"))
                             .iterations(steps);
  const auto micro_batch = [](bool last) {
    return Script::Segment{.body = {{.kind = ActionKind::set_is_last_backward, .value = last},
                                    {ActionKind::forward},
                                    {ActionKind::backward}}};
  };
  Scenario hurried = plain;
  hurried.script.segments.clear();
  for (int step = 0; step < steps; ++step) {
    for (const bool last : {false, true}) hurried.script.segments.push_back(micro_batch(last));
  }
  const Run waits = play(rank, plain), goes_on = play(rank, hurried);
  check_no_race(rank, waits);
  check_no_race(rank, goes_on);
  const std::vector<MicroBatches> hurrying = micro_batches(goes_on);
  for (const Iteration& waiting : steady_iterations(waits)) {
    CAPTURE(waiting.index());
    const Iteration& first = hurrying.at(static_cast<std::size_t>(waiting.index())).first;
    CHECK(std::chrono::nanoseconds(waiting.forward_backward() - first.forward_backward()) == 10ms);
  }
}

RANKED_TEST_CASE("overlap/dropped_micro_batch", clauses("OVL-10", "OVL-17"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::gradient_accumulation)) {
  // A gradient that waits for its reduction goes with the others.
  Scenario scenario = accumulating(ActionKind::set_requires_gradient_sync, "", true);
  std::vector<Script::Segment>& segments = scenario.script.segments;
  for (std::size_t first = 0; first < segments.size(); first += 2)
    segments[first].body.push_back({ActionKind::zero_grad});
  check_values(rank, play(rank, scenario));
}

}  // namespace shardproof::overlap
