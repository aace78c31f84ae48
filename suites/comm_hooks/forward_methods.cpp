// Methods of a module that an engine runs as a forward.
#include <shardproof.hpp>

#include <vector>

#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/exact_inputs.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/comm_hooks/scenarios.hpp"

namespace shardproof::comm_hooks {

using namespace suites;

namespace {

// The first layer runs alone after each step: by its forward, or by a method.
Scenario with_layer_alone(bool by_method) {
  Scenario scenario = hooked_net(ShardStrategy::full_shard, true);
  scenario.plan = {};
  fully_shard_plan(scenario.plan).wrap = {{.modules = {"net.0"}}, {.modules = {"net.2"}}, {.modules = {""}}};
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 1.0 / 64};
  scenario.model.init_divisor = 8;
  scenario.script.segments = {{.iterations = 3,
                               .body = {{.kind = ActionKind::forward},
                                        {.kind = ActionKind::backward},
                                        {.kind = ActionKind::step},
                                        {.kind = ActionKind::capture},
                                        {.kind = ActionKind::zero_grad},
                                        {.kind = ActionKind::evaluate, .module = "net.0", .by_method = by_method},
                                        {.kind = ActionKind::capture}}}};
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("comm_hooks/forward_method", clauses("CMH-23"), ranks(2, 3, 4), on_engines("fully_shard"),
                 needs(Feature::timeline, Feature::module_groups, FullyShardFeature::forward_methods)) {
  const Run run = play_accepted(rank, with_layer_alone(true)), usual = play_accepted(rank, with_layer_alone(false));
  check_no_race(rank, run);
  check_same_order(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const std::vector<fact::Collective> gathers = iteration.collectives(ActionKind::evaluate);
    REQUIRE(gathers.size() == 1);
    CHECK(gathers.front().tag == "net.0");
    CHECK(iteration.live_after(MemoryClass::parameter, ActionKind::evaluate).buffers == 0);
    CHECK(iteration.live_after(MemoryClass::gathered, ActionKind::evaluate).buffers == 0);
  }
  check_training(rank, run, oracles::Arithmetic::f32, {.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-3},
                 Moves::some_parameter);
  // The method computes the very bits that the forward computes.
  REQUIRE(run.captures().size() == usual.captures().size());
  for (std::size_t i = 0; i < run.captures().size(); ++i) {
    CAPTURE(i);
    CHECK(run.captures()[i].loss == usual.captures()[i].loss);
    CHECK(run.captures()[i].loss != 0);
  }
  check_freed_memory(rank, run);
}

}  // namespace shardproof::comm_hooks
