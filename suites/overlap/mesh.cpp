// A mesh of two dimensions: sharded within a group, replicated across groups.
#include <algorithm>

#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

Scenario on_mesh(Scenario scenario, int replicas, int world) {
  scenario.plan.mesh = {.shape = {replicas, world / replicas}, .names = {"replicate", "shard"}};
  return scenario;
}

// Ranks of a world as the mesh arranges them: rows shard, columns replicate.
std::vector<int> row_of(int rank, int shards) {
  std::vector<int> row;
  for (int i = 0; i < shards; ++i) row.push_back(rank / shards * shards + i);
  return row;
}

std::vector<int> column_of(int rank, int shards, int replicas) {
  std::vector<int> column;
  for (int i = 0; i < replicas; ++i) column.push_back(i * shards + rank % shards);
  return column;
}

void check_groups(Rank& rank, const Run& run, int replicas) {
  const auto judged = rank.under("OVL-40");
  const int shards = rank.world().size() / replicas;
  for (const Fact& fact : run.trace().facts) {
    const auto* collective = std::get_if<fact::Collective>(&fact);
    if (collective == nullptr) continue;
    CAPTURE(to_string(collective->kind), collective->tag);
    CHECK(collective->group == (collective->kind == CollectiveKind::all_reduce
                                    ? column_of(rank.index(), shards, replicas)
                                    : row_of(rank.index(), shards)));
  }
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK((iteration.count(CollectiveKind::all_gather) > 0) == (shards > 1));
    CHECK((iteration.count(CollectiveKind::reduce_scatter) > 0) == (shards > 1));
  }
  CHECK((run.count(CollectiveKind::all_reduce) > 0) == (replicas > 1));
}

void play_mesh(Rank& rank) {
  const int replicas = rank.param<int>("replicas");
  const Run run =
      play(rank, on_mesh(small_mlp({.rate = 0.25}, rank.param<bool>("reshard"), 3), replicas, rank.world().size()));
  check_training(rank, run, oracles::Arithmetic::f32, {});
  check_sound(rank, run);
  check_groups(rank, run, replicas);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_nothing_is_left(rank, run, iteration.index());
    const auto judged = rank.under("OVL-40");
    CHECK((iteration.count(CollectiveKind::all_reduce) > 0) == (replicas > 1));
  }
}

constexpr int micro_batches_of_step = 3;

// Three steps.
void play_partial(Rank& rank, bool dropped) {
  const int replicas = rank.param<int>("replicas"), world = rank.world().size();
  Scenario scenario = on_mesh(small_mlp({.rate = 0.25}, true, 1), replicas, world);
  Script::Segment partial{.iterations = micro_batches_of_step - 1,
                          .body = {{.kind = ActionKind::set_requires_all_reduce, .value = false},
                                   {ActionKind::forward},
                                   {ActionKind::backward},
                                   {ActionKind::capture}}};
  if (dropped) partial.body.push_back({ActionKind::zero_grad});
  const Script::Segment whole{.body = {{.kind = ActionKind::set_requires_all_reduce, .value = true},
                                       {ActionKind::forward},
                                       {ActionKind::backward},
                                       {ActionKind::step},
                                       {ActionKind::capture},
                                       {ActionKind::zero_grad}}};
  scenario.script.segments = {partial, whole, partial, whole, partial, whole};
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
  check_groups(rank, run, replicas);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const std::size_t groups = 2;
    const auto judged = rank.under("OVL-17");
    const bool is_last = iteration.index() % micro_batches_of_step == micro_batches_of_step - 1;
    check_count(iteration, CollectiveKind::reduce_scatter, ActionKind::backward, world > replicas ? groups : 0);
    check_count(iteration, CollectiveKind::all_reduce, ActionKind::backward, replicas > 1 && is_last ? groups : 0);
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/mesh", clauses("OVL-4", "OVL-5", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-40"), ranks(2),
                 each("replicas", 1, 2), each("reshard", false, true),
                 needs(Feature::timeline, Feature::replicated_mesh)) {
  play_mesh(rank);
}

RANKED_TEST_CASE("overlap/mesh", clauses("OVL-4", "OVL-5", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-40"), ranks(4),
                 each("replicas", 1, 2, 4), each("reshard", false, true),
                 needs(Feature::timeline, Feature::replicated_mesh)) {
  play_mesh(rank);
}

RANKED_TEST_CASE("overlap/mesh_partial", clauses("OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-17", "OVL-40"), ranks(2),
                 each("replicas", 1, 2), each("dropped", false, true),
                 needs(Feature::timeline, Feature::replicated_mesh, Feature::gradient_accumulation)) {
  play_partial(rank, rank.param<bool>("dropped"));
}

RANKED_TEST_CASE("overlap/mesh_partial", clauses("OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-17", "OVL-40"), ranks(4),
                 each("replicas", 2, 4), each("dropped", false, true),
                 needs(Feature::timeline, Feature::replicated_mesh, Feature::gradient_accumulation)) {
  play_partial(rank, rank.param<bool>("dropped"));
}

RANKED_TEST_CASE("overlap/mesh_reductions_of_two_kinds", clauses("OVL-6", "OVL-7", "OVL-15", "OVL-17"), ranks(4),
                 each("replicas", 2, 4),
                 needs(Feature::timeline, Feature::replicated_mesh, Feature::gradient_accumulation)) {
  // One micro-batch is reduced among all, the next within its shard group: they end on different streams, and the step
  // waits for both.
  Scenario scenario = on_mesh(small_mlp({.rate = 0.25}, true, 1), rank.param<int>("replicas"), 4);
  const auto last = [](bool value) { return Action{.kind = ActionKind::set_is_last_backward, .value = value}; };
  scenario.script.segments = {{.iterations = 3,
                               .body = {last(false),
                                        {.kind = ActionKind::set_requires_all_reduce, .value = true},
                                        {ActionKind::forward},
                                        {ActionKind::backward},
                                        last(true),
                                        {.kind = ActionKind::set_requires_all_reduce, .value = false},
                                        {ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step}}}};
  const Run run = play(rank, scenario);
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-17");
    check_count(iteration, CollectiveKind::all_reduce, 2);
  }
  const auto judged = rank.under("OVL-17");
  check_all_in_iterations(run, CollectiveKind::all_reduce);
}

RANKED_TEST_CASE("overlap/mesh_shard_dims", clauses("OVL-10", "OVL-15", "OVL-18", "OVL-40"), ranks(4),
                 each("reshard", 1, 2),
                 needs(Feature::timeline, Feature::replicated_mesh, FullyShardFeature::shard_dims,
                       FullyShardFeature::reshard_to_size)) {
  // 6 entries are shared evenly by 2 ranks, not by 4; and what is resharded to size 2 stays as it is where 2 ranks
  // shard.
  Scenario scenario = on_mesh(small_mlp({.rate = 0.25}, true, 3), 2, 4);
  fully_shard_plan(scenario.plan).shard_dims["l1.weight"] = 1;
  for (WrapGroup& group : fully_shard_plan(scenario.plan).wrap) {
    group.reshard_after_forward = {.kind = ReshardAfterForward::Kind::size, .size = rank.param<int>("reshard")};
  }
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {});
  check_sound(rank, run);
  check_groups(rank, run, 2);
  for (const Iteration& iteration : steady_iterations(run)) check_nothing_is_left(rank, run, iteration.index());
  const auto judged = rank.under("OVL-18");
  REQUIRE(run.captures().size() == 3);
  for (const Capture& capture : run.captures()) {
    const auto& held = capture.parameters;
    const auto along = std::ranges::find(held, "l1.weight", &CapturedParameter::name);
    REQUIRE(along != held.end());
    CHECK(along->dim == 1);
    CHECK(along->shard.shape() == Shape{3, 3});
  }
}

}  // namespace shardproof::overlap
