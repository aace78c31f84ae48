// Between forward and backward larger shards, over fewer ranks.
#include <vector>

#include "harness/trace/memory.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

using scenario::Action;
using scenario::ActionKind;
using scenario::Scenario;

RANKED_TEST_CASE("overlap/reshard_to_size", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-12", "OVL-15", "OVL-18"), ranks(1, 2, 3, 4),
                 each("size", 1, 2), needs(Feature::timeline, Feature::fully_shard, Feature::reshard_to_size)) {
  const int world = rank.world().size(), size = world % rank.param<int>("size") == 0 ? rank.param<int>("size") : world;
  Scenario scenario = two_iterations({}, {}, true);
  for (scenario::WrapGroup& group : scenario.plan.wrap) {
    group.reshard_after_forward = {.kind = scenario::ReshardAfterForward::Kind::size, .size = size};
  }
  const scenario::Run run = rank.play(scenario);
  check_two_iterations(rank, run);
  // Over one rank nothing is gathered again; over some, among those alone.
  const auto again = collectives_in(run, 1, ActionKind::backward);
  std::vector<int> few;
  for (int i = 0; i < size; ++i) few.push_back(rank.index() / size * size + i);
  std::size_t all_gathers = 0;
  for (const fact::Collective& collective : again) {
    if (collective.kind != CollectiveKind::all_gather) continue;
    ++all_gathers;
    CHECK(collective.group == few);
  }
  CHECK(all_gathers == (world > 1 && size > 1 ? 2 : 0));
  const auto live = [&run](MemoryClass memory, ActionKind call, bool end) {
    return trace::at(run.trace(), memory, scenario::mark(1, call, end));
  };
  CHECK(live(MemoryClass::gathered, ActionKind::forward, true).buffers == 0);
  // Over all ranks there is nothing to keep but the shards.
  if (size == world && size > 1) {
    CHECK(live(MemoryClass::shard, ActionKind::forward, true) == live(MemoryClass::shard, ActionKind::forward, false));
  }
}

RANKED_TEST_CASE("overlap/narrow_parts", clauses("OVL-10"), ranks(4), needs(Feature::fully_shard, Feature::reshard_to_size)) {
  // Three rows of one, kept by two ranks: one of them has a single row, and backward reads it.
  Scenario scenario = small_mlp({.rate = 0.25}, true, 1);
  scenario.model.root.children = {linear("l0", 4, 1), linear("narrow", 1, 3)};
  scenario.plan.wrap = {{.modules = {"l0"}},
                        {.modules = {"narrow"}, .reshard_after_forward = {scenario::ReshardAfterForward::Kind::size, 2}},
                        {.modules = {""}}};
  check_training(rank, rank.play(scenario), oracles::Arithmetic::f32, {});
}

RANKED_TEST_CASE("overlap/parts_nobody_needs", clauses("OVL-7", "OVL-10", "OVL-18"), ranks(4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::module_groups, Feature::reshard_to_size)) {
  // No gradient comes by a first layer that takes no part in the loss: what it keeps for backward goes with the iteration.
  Scenario scenario = small_mlp({.rate = 0.25}, true, 1);
  std::vector<scenario::Module>& children = scenario.model.root.children;
  children.insert(children.begin(), {.name = "aside", .kind = scenario::ModuleKind::discard, .children = {linear("inner", 4, 4)}});
  scenario.plan.wrap.insert(scenario.plan.wrap.begin(),
                            {.modules = {"aside"}, .reshard_after_forward = {scenario::ReshardAfterForward::Kind::size, 2}});
  scenario.plan.wrap.back().reshard_after_forward = {};
  const scenario::Run run = rank.play(scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
  const auto shards = [&run](ActionKind call, bool end) {
    return trace::at(run.trace(), MemoryClass::shard, scenario::mark(0, call, end));
  };
  CHECK(shards(ActionKind::backward, true) == shards(ActionKind::forward, false));
}

RANKED_TEST_CASE("overlap/parts_freed_by_hand", clauses("OVL-7", "OVL-10", "OVL-15", "OVL-18"), ranks(4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::reshard_to_size, Feature::manual_unshard)) {
  // Also what is on its way from those parts.
  Scenario scenario =
      two_iterations({}, {{.kind = ActionKind::unshard, .module = "l0", .async = true}, {.kind = ActionKind::reshard}}, true);
  for (scenario::WrapGroup& group : scenario.plan.wrap) {
    group.reshard_after_forward = {.kind = scenario::ReshardAfterForward::Kind::size, .size = 2};
  }
  const scenario::Run run = rank.play(scenario);
  check_two_iterations(rank, run);
  // Gathered again among all: the larger parts are gone.
  const auto again = collectives_in(run, 1, ActionKind::backward);
  for (const fact::Collective& collective : again) CHECK(collective.group.size() == 4);
  const auto shards = [&run](ActionKind call, bool end) {
    return trace::at(run.trace(), MemoryClass::shard, scenario::mark(1, call, end));
  };
  CHECK(shards(ActionKind::reshard, true) == shards(ActionKind::forward, false));
  // Each group once.
  CHECK(count_in(run, CollectiveKind::all_gather, 1, ActionKind::backward) == 2);
}

}  // namespace shardproof::overlap
