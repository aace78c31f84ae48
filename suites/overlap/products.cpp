// Features that are right alone, together: each case plays two or three of them at once.
#include <string>
#include <vector>

#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

void replicate_in_two(Scenario& scenario, int world) {
  scenario.plan.mesh = {.shape = {2, world / 2}, .names = {"replicate", "shard"}};
}

// Four columns of one weight and six of the other: ranks share them evenly if there are two, and all columns are
// different.
void shard_columns(Scenario& scenario) {
  fully_shard_plan(scenario.plan).shard_dims = {{"l0.weight", 1}, {"l1.weight", -1}};
}

// Two forwards and two backwards before each step, which all reduce.
void reduce_twice(Scenario& scenario) {
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin(), {{ActionKind::forward}, {ActionKind::backward}});
}

Action sync(bool value) { return {.kind = ActionKind::set_requires_gradient_sync, .value = value}; }

}  // namespace

// A factor names what the sum over all ranks is divided by, those that replicate included.
RANKED_TEST_CASE("overlap/factor_on_mesh", clauses("OVL-10"), ranks(2, 4), each("factor", 1, 2, 8),
                 each("backwards", 1, 2),
                 needs(Feature::timeline, Feature::replicated_mesh, FullyShardFeature::gradient_divide_factor)) {
  const int world = rank.world().size(), factor = rank.param<int>("factor");
  Scenario scenario = small_mlp({.rate = 0.25 * factor / world}, true, 3);  // steps are those of the mean
  replicate_in_two(scenario, world);
  fully_shard_plan(scenario.plan).gradient_divide_factor = factor;
  if (rank.param<int>("backwards") == 2) reduce_twice(scenario);
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values);
  check_sound(rank, run);
}

RANKED_TEST_CASE("overlap/columns_reduced_twice", clauses("OVL-10", "OVL-17"), ranks(1, 2),
                 each("reshard", false, true), needs(Feature::timeline, FullyShardFeature::shard_dims)) {
  Scenario scenario = small_mlp({.rate = 0.25}, rank.param<bool>("reshard"), 3);
  shard_columns(scenario);
  reduce_twice(scenario);
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values);
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-17");
    check_count(iteration, CollectiveKind::reduce_scatter, rank.world().size() > 1 ? 4 : 0);
  }
}

RANKED_TEST_CASE("overlap/columns_clipped", clauses("OVL-10", "OVL-41"), ranks(1, 2), each("norm", 1, 2),
                 needs(Feature::timeline, Feature::clip_grad_norm, FullyShardFeature::shard_dims)) {
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  shard_columns(scenario);
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin() + 2,
              {.kind = ActionKind::clip_grad_norm, .max_norm = 2, .norm_type = rank.param<double>("norm")});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f64, {.loss = 1e-2, .gradient = 1e-4, .parameter = 1e-4});
  check_sound(rank, run);
}

// Eight columns are shared by four ranks. Between forward and backward each pair of ranks keeps the whole weight, and
// backward reads it.
RANKED_TEST_CASE("overlap/columns_in_parts", clauses("OVL-10", "OVL-18"), ranks(4),
                 needs(Feature::timeline, FullyShardFeature::shard_dims, FullyShardFeature::reshard_to_size)) {
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  scenario.model.root.children = {linear("l0", 4, 8), relu("relu"), linear("l1", 8, 3)};
  fully_shard_plan(scenario.plan).shard_dims = {{"l1.weight", 1}};
  for (WrapGroup& group : fully_shard_plan(scenario.plan).wrap)
    group.reshard_after_forward = {.kind = ReshardAfterForward::Kind::size, .size = 2};
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values);
  check_sound(rank, run);
}

// The switch turns both reductions of a mesh off, and on again.
RANKED_TEST_CASE("overlap/sync_on_mesh", clauses("OVL-10", "OVL-17", "OVL-40"), ranks(2, 4),
                 each("module", "all", "l0"),
                 needs(Feature::timeline, Feature::replicated_mesh, Feature::gradient_accumulation)) {
  const int world = rank.world().size();
  const bool all = rank.param("module") == "all";
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  replicate_in_two(scenario, world);
  Action off = sync(false), on = sync(true);
  if (!all) off.module = on.module = "l0";
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin(), {off, {ActionKind::forward}, {ActionKind::backward}, on});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values);
  check_sound(rank, run);
  const std::size_t groups = 2, reductions = all ? groups : groups + 1;  // the other group reduces twice
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-17");
    check_count(iteration, CollectiveKind::reduce_scatter, world > 2 ? reductions : 0);
    const auto judged_among_copies = rank.under("OVL-17", "OVL-40");
    check_count(iteration, CollectiveKind::all_reduce, reductions);
  }
}

}  // namespace shardproof::overlap
