// Between forward and backward larger shards, over fewer ranks.
#include <vector>

#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

RANKED_TEST_CASE("overlap/reshard_to_size", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-12", "OVL-15", "OVL-18"),
                 ranks(1, 2, 3, 4), also_with_discarded_module(), each("size", 1, 2),
                 needs(Feature::timeline, FullyShardFeature::reshard_to_size)) {
  const int world = rank.world().size(), size = world % rank.param<int>("size") == 0 ? rank.param<int>("size") : world;
  Scenario scenario = three_iterations({}, {}, true);
  for (WrapGroup& group : fully_shard_plan(scenario.plan).wrap) {
    group.reshard_after_forward = {.kind = ReshardAfterForward::Kind::size, .size = size};
  }
  const Run run = play_accepted(rank, scenario);
  check_three_iterations(rank, run);
  // Over one rank nothing is gathered again; over some, among those alone.
  std::vector<int> few;
  for (int i = 0; i < size; ++i) few.push_back(rank.index() / size * size + i);
  const auto judged = rank.under("OVL-18");
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    for (const fact::Collective& collective : iteration.collectives(ActionKind::backward)) {
      if (collective.kind == CollectiveKind::all_gather) CHECK(collective.group == few);
    }
    check_count(iteration, CollectiveKind::all_gather, ActionKind::backward, world > 1 && size > 1 ? 2 : 0);
    {
      const auto judged_buffers = rank.under("OVL-12");
      CHECK(iteration.live_after(MemoryClass::gathered, ActionKind::forward).buffers == 0);
    }
    // If the parts are over all ranks, the engine keeps only the shards.
    if (size == world && size > 1) {
      CHECK(iteration.live_after(MemoryClass::shard, ActionKind::forward) ==
            iteration.live_before(MemoryClass::shard, ActionKind::forward));
    }
  }
}

RANKED_TEST_CASE("overlap/narrow_parts", clauses("OVL-10"), ranks(4), needs(FullyShardFeature::reshard_to_size)) {
  // Three rows of one, kept by two ranks: one of them has a single row, and backward reads it.
  Scenario scenario = small_mlp({.rate = 0.25}, true, 1);
  scenario.model.root.children = {linear("l0", 4, 1), linear("narrow", 1, 3)};
  fully_shard_plan(scenario.plan).wrap = {
      {.modules = {"l0"}},
      {.modules = {"narrow"}, .reshard_after_forward = {ReshardAfterForward::Kind::size, 2}},
      {.modules = {""}}};
  check_training(rank, play(rank, scenario), oracles::Arithmetic::f32, {});
}

RANKED_TEST_CASE("overlap/parts_nobody_needs", clauses("OVL-7", "OVL-10", "OVL-18"), ranks(4),
                 needs(Feature::timeline, Feature::module_groups, FullyShardFeature::reshard_to_size)) {
  // The first layer does not affect the loss, so it gets no gradient. The parts that it keeps for backward are released
  // with the iteration.
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  std::vector<Module>& children = scenario.model.root.children;
  children.insert(children.begin(),
                  {.name = "aside", .kind = ModuleKind::discard, .children = {linear("inner", 4, 4)}});
  fully_shard_plan(scenario.plan)
      .wrap.insert(fully_shard_plan(scenario.plan).wrap.begin(),
                   {.modules = {"aside"}, .reshard_after_forward = {ReshardAfterForward::Kind::size, 2}});
  fully_shard_plan(scenario.plan).wrap.back().reshard_after_forward = {};
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
  const auto judged = rank.under("OVL-18");
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(iteration.live_after(MemoryClass::shard, ActionKind::backward) ==
          iteration.live_before(MemoryClass::shard, ActionKind::forward));
  }
}

RANKED_TEST_CASE("overlap/parts_freed_by_hand", clauses("OVL-7", "OVL-10", "OVL-15", "OVL-18"), ranks(4),
                 needs(Feature::timeline, FullyShardFeature::reshard_to_size, FullyShardFeature::manual_unshard)) {
  // Also what is on its way from those parts.
  Scenario scenario = three_iterations(
      {}, {{.kind = ActionKind::unshard, .module = "l0", .async = true}, {.kind = ActionKind::reshard}}, true);
  for (WrapGroup& group : fully_shard_plan(scenario.plan).wrap) {
    group.reshard_after_forward = {.kind = ReshardAfterForward::Kind::size, .size = 2};
  }
  const Run run = play(rank, scenario);
  check_three_iterations(rank, run);
  const auto judged = rank.under("OVL-18");
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    // Gathered again among all: the larger parts are gone.
    for (const fact::Collective& collective : iteration.collectives(ActionKind::backward))
      CHECK(collective.group.size() == 4);
    CHECK(iteration.live_after(MemoryClass::shard, ActionKind::reshard) ==
          iteration.live_before(MemoryClass::shard, ActionKind::forward));
    // Each group once.
    check_count(iteration, CollectiveKind::all_gather, ActionKind::backward, 2);
  }
}

}  // namespace shardproof::overlap
