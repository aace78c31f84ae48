// Evaluations, steps and ends of scripts at unexpected points.
#include <string>
#include <vector>

#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

RANKED_TEST_CASE("overlap/evaluation_between",
                 clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-11", "OVL-12", "OVL-15", "OVL-18"),
                 ranks(1, 2, 3, 4), also_with_discarded_module(), each("reshard", false, true),
                 needs(Feature::timeline)) {
  // Evaluations before and after the step: parameters that an evaluation gathers must not outlive the step.
  Scenario scenario = three_iterations({{ActionKind::evaluate}}, {}, rank.param<bool>("reshard"));
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin() + 3, Action{ActionKind::evaluate});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_sound(rank, run);
  // No backward follows an evaluation. So an evaluation must leave no parameters, and no place in the order of
  // forwards.
  const bool reshard = rank.param<bool>("reshard");
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    {
      const auto judged = rank.under("OVL-12");
      CHECK(iteration.live_after(MemoryClass::gathered, ActionKind::evaluate).buffers == 0);
    }
    if (reshard) {
      const auto judged = rank.under("OVL-11");
      CHECK(iteration.live_after(MemoryClass::parameter, ActionKind::evaluate).buffers == 0);
    }
    const auto judged = rank.under("OVL-18");
    const bool alone = rank.world().size() == 1;
    check_count(iteration, CollectiveKind::all_gather, ActionKind::backward, reshard && !alone ? 2 : 0);
  }
}

RANKED_TEST_CASE("overlap/gathered_before_step", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15"),
                 ranks(1, 2, 3, 4), also_with_discarded_module(),
                 each("how", "by_hand", "ahead", "prefetched_and_by_hand", "parts"),
                 needs(Feature::timeline, FullyShardFeature::manual_unshard, FullyShardFeature::prefetch_lists,
                       FullyShardFeature::reshard_to_size)) {
  // A step makes an all-gather stale that has been issued or finished before it.
  const std::string& how = rank.param("how");
  const int world = rank.world().size();
  Scenario scenario = three_iterations({}, {}, true);
  std::vector<Action>& body = scenario.script.segments.front().body;
  std::vector<Action> before_step{{.kind = ActionKind::unshard, .module = "l0", .async = true}};
  if (how == "ahead" || how == "prefetched_and_by_hand")
    fully_shard_plan(scenario.plan).wrap[1].forward_prefetch = {"l0"};
  if (how == "ahead") before_step = {{ActionKind::evaluate}};
  if (how == "prefetched_and_by_hand") before_step = {{.kind = ActionKind::unshard, .module = "l0"}};
  if (how == "parts") {
    fully_shard_plan(scenario.plan).wrap[0].reshard_after_forward = {ReshardAfterForward::Kind::size,
                                                                     world % 2 == 0 ? 2 : 1};
    before_step.insert(before_step.begin(), Action{ActionKind::evaluate});
  }
  const bool between = how == "prefetched_and_by_hand";  // the forward that has just ended gathered it ahead
  body.insert(body.begin() + (between ? 1 : 2), before_step.begin(), before_step.end());
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_sound(rank, run);
}

RANKED_TEST_CASE("overlap/unfinished_scripts", clauses("OVL-7", "OVL-13"), ranks(1, 2, 3, 4),
                 also_with_discarded_module(),
                 each("ends_with", "unshard", "forward", "not_last", "prefetch", "zero_grad"),
                 needs(Feature::timeline, FullyShardFeature::manual_unshard, FullyShardFeature::prefetch_lists,
                       Feature::gradient_accumulation)) {
  // At any end of a script, memory that is still in use is released in order. The script ends after two finished
  // iterations.
  const std::string& end = rank.param("ends_with");
  Scenario scenario = three_iterations({}, {}, true);
  scenario.script.segments.front().iterations = 2;
  std::vector<Action>& body = scenario.script.segments.emplace_back().body;
  const Action not_last{.kind = ActionKind::set_is_last_backward, .value = false};
  if (end == "unshard") body = {{.kind = ActionKind::unshard, .async = true}};
  if (end == "forward") body = {{ActionKind::forward}};
  if (end == "not_last") body = {not_last, {ActionKind::forward}, {ActionKind::backward}};
  if (end == "zero_grad") body = {not_last, {ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}};
  if (end == "prefetch") {
    fully_shard_plan(scenario.plan).wrap[1].forward_prefetch = {"l0"};
    body = {{ActionKind::evaluate}, {ActionKind::forward}};
  }
  const Run run = play_accepted(rank, scenario);
  check_no_race(rank, run);
  check_freed_memory(rank, run);
  if (rank.world().size() > 1) CHECK(steady_iterations(run).back().count(CollectiveKind::all_gather) > 0);
}

}  // namespace shardproof::overlap
