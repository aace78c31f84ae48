// An engine with flat parameters that overlaps must compute right values, with each strategy and with its own
// parameters.
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

// `small_mlp` with each layer in a unit. A strategy with copies takes a mesh of two by two.
Scenario flat_mlp(Rank& rank) {
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  scenario.plan.engine = {};
  FlatShardPlan& plan = flat_shard_plan(scenario.plan);
  plan.wrap = {"l0", "l1", ""};
  plan.strategy = strategy(rank);
  plan.use_orig_params = rank.param<bool>("orig");
  if (has_replicas(plan.strategy)) scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("overlap/flat_values", clauses("OVL-10", "OVL-12", "OVL-15", "OVL-16"), ranks(1, 2, 3, 4),
                 on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("orig", false, true), needs(Feature::timeline),
                 needs_if("orig", true, FlatShardFeature::orig_params)) {
  const Run run = play_accepted(rank, flat_mlp(rank));
  check_three_iterations(rank, run);
  check_nothing_else_is_communicated(rank, run);
}

// A weight of three dimensions is a range of elements like any other.
RANKED_TEST_CASE("overlap/flat_convolution", clauses("OVL-10", "OVL-12", "OVL-15", "OVL-16"), ranks(1, 2, 3, 4),
                 on_engines("flat_shard"), each("strategy", "full_shard"), each("orig", false, true),
                 needs(Feature::timeline, Feature::convolution),
                 needs_if("orig", true, FlatShardFeature::orig_params)) {
  Scenario scenario = flat_mlp(rank);
  scenario.model.root.children.back() = convolution("l1", 3, 6, 3);
  const Run run = play_accepted(rank, std::move(scenario));
  check_three_iterations(rank, run);
  check_nothing_else_is_communicated(rank, run);
}

RANKED_TEST_CASE("overlap/flat_values_of_copies", clauses("OVL-10", "OVL-12", "OVL-15", "OVL-16"), ranks(4),
                 on_engines("flat_shard"), each("strategy", "hybrid", "hybrid_zero2"), each("orig", false, true),
                 needs(Feature::timeline, Feature::replicated_mesh),
                 needs_if("orig", true, FlatShardFeature::orig_params)) {
  const Run run = play_accepted(rank, flat_mlp(rank));
  check_three_iterations(rank, run);
  check_nothing_else_is_communicated(rank, run);
}

// Each step has two micro-batches, and gradients are reduced after the second one.
RANKED_TEST_CASE("overlap/flat_accumulation", clauses("OVL-10", "OVL-15", "OVL-16", "OVL-17"), ranks(1, 2, 3, 4),
                 on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("orig", false, true), needs(Feature::timeline, Feature::gradient_accumulation),
                 needs_if("orig", true, FlatShardFeature::orig_params)) {
  Scenario scenario = flat_mlp(rank);
  const auto sync = [](bool value) { return Action{.kind = ActionKind::set_requires_gradient_sync, .value = value}; };
  scenario.script.segments = {{.iterations = 3,
                               .body = {sync(false),
                                        {ActionKind::forward},
                                        {ActionKind::backward},
                                        sync(true),
                                        {ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  const Run run = play_accepted(rank, std::move(scenario));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_sound(rank, run);
  check_nothing_else_is_communicated(rank, run);
}

}  // namespace shardproof::overlap
