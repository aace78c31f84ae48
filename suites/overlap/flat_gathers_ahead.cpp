// Gathers ahead of a unit that then does not run. No computation waits for such a gather, but the optimizer writes the
// shard that the gather reads.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/alive.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/exact_inputs.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

constexpr const char* varying_unit = "way.taken";

// The unit runs, is skipped, or runs and its result is discarded. If it is skipped or discarded, its gather is the last
// one before the step.
enum class Way { taken, skipped, discarded };

Action along(Way way, ActionKind kind) {
  static const std::map<Way, std::string> names{{Way::skipped, "skipped"}, {Way::discarded, "discarded"}};
  Action action{.kind = kind};
  if (way != Way::taken) action.paths = {{"way", names.at(way)}};
  return action;
}

// The script never calls zero_grad. So the unit keeps a gradient, and each step writes it, also if the unit has not
// run.
Scenario ways(ShardStrategy strategy, bool evaluates) {
  Scenario scenario;
  const Module discarded{.name = "discarded",
                         .kind = ModuleKind::discard,
                         .children = {{.name = "again", .kind = ModuleKind::use, .target = varying_unit}}};
  scenario.model.root.children = {
      linear("first", 5, 6),
      {.name = "way", .kind = ModuleKind::choice, .children = {linear("taken", 6, 6), relu("skipped"), discarded}},
      linear("last", 6, 3)};
  scenario.model.loss = {.kind = LossKind::dot, .divisor = 4};
  scenario.model.init_divisor = 8;
  FlatShardPlan& plan = flat_shard_plan(scenario.plan);
  plan.wrap = {varying_unit, ""};
  plan.strategy = strategy;
  plan.forward_prefetch = true;
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 1.0 / 16};
  scenario.script.input = {2, 5};
  scenario.script.input_divisor = 1;
  give_one_hot_inputs(scenario.script);
  for (const Way way : {Way::taken, Way::skipped, Way::discarded, Way::taken}) {
    std::vector<Action> body{along(way, ActionKind::forward), {.kind = ActionKind::backward}};
    if (evaluates) body.push_back(along(Way::skipped, ActionKind::evaluate));
    body.push_back({.kind = ActionKind::step});
    body.push_back({.kind = ActionKind::capture});
    scenario.script.segments.push_back({.body = std::move(body)});
  }
  return scenario;
}

// Two roots. In the first root, a module that may be skipped follows a frozen layer. If it is skipped, the backward of
// the second root does not reach the first root.
Scenario frozen_root_before(ShardStrategy strategy) {
  Scenario scenario = ways(strategy, false);
  Module& root = scenario.model.root;
  Module frozen = root.children[0], way = root.children[1], last = root.children[2];
  frozen.frozen = true;
  way.children.pop_back();
  root.children = {{.name = "front", .kind = ModuleKind::sequential, .children = {frozen, way}}, last};
  flat_shard_plan(scenario.plan).wrap = {"front.way.taken", "front", "last"};
  scenario.script.segments.clear();
  for (const bool is_skipped : {false, true, true, false}) {
    Action forward{.kind = ActionKind::forward};
    if (is_skipped) forward.paths = {{"front.way", "skipped"}};
    scenario.script.segments.push_back(
        {.body = {forward, {.kind = ActionKind::backward}, {.kind = ActionKind::step}, {.kind = ActionKind::capture}}});
  }
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("overlap/flat_gathers_in_vain", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-12", "OVL-15"),
                 ranks(2, 3, 4), on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op"),
                 each("evaluates", false, true),
                 needs(Feature::timeline, Feature::module_groups, FlatShardFeature::forward_prefetch)) {
  const Run run = play_accepted(rank, ways(strategy(rank), rank.param<bool>("evaluates")));
  check_no_race(rank, run);
  check_same_order(rank, run);
  check_training(rank, run, oracles::Arithmetic::f32, exact_at_first, Moves::some_parameter);
  for (const Iteration& iteration : steady_iterations(run)) check_nothing_is_left(rank, run, iteration.index());
  check_freed_memory(rank, run);
}

RANKED_TEST_CASE("overlap/flat_root_not_reached", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-12", "OVL-15"),
                 ranks(2, 3), on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op"),
                 needs(Feature::timeline, Feature::module_groups, FlatShardFeature::forward_prefetch)) {
  const Run run = play_accepted(rank, frozen_root_before(strategy(rank)));
  check_no_race(rank, run);
  check_same_order(rank, run);
  check_training(rank, run, oracles::Arithmetic::f32, exact_at_first, Moves::some_parameter);
  // A backward frees the units that it reaches. The unit of the first root may stay whole until the step.
  for (const Iteration& iteration : steady_iterations(run)) {
    const auto judged = rank.under("OVL-12");
    const std::string end = mark(iteration.index(), ActionKind::backward, true);
    check_alive(run.trace(), MemoryClass::parameter, end, Alive::at_most, 1);
    check_alive(run.trace(), MemoryClass::reduce_input, end, Alive::exactly, 0);
  }
  check_freed_memory(rank, run);
}

}  // namespace shardproof::overlap
