// A root that the first forward does not reach. An engine makes the root's streams and order when the root first runs.
// All requirements hold for this root, too.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "harness/trace/timeline.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/exact_inputs.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

// Three roots. The second root holds three groups. The first and the last iteration skip it, and its first forward
// fails.
Scenario later_root(int replicas, int world) {
  Scenario scenario;
  scenario.model.root.children = {
      linear("first", 5, 6),
      {.name = "way",
       .kind = ModuleKind::choice,
       .children = {{.name = "later",
                     .kind = ModuleKind::sequential,
                     .children = {linear("in", 6, 6), linear("middle", 6, 6), linear("out", 6, 6)}},
                    relu("skipped")}},
      linear("last", 6, 3)};
  scenario.model.loss = {.kind = LossKind::dot, .divisor = 4};
  scenario.model.init_divisor = 8;
  FullyShardPlan& plan = fully_shard_plan(scenario.plan);
  plan.wrap = {{.modules = {"first"}},
               {.modules = {"way.later.in"}},
               {.modules = {"way.later.middle"}},
               {.modules = {"way.later"}},
               {.modules = {"last"}}};
  if (replicas > 1) scenario.plan.mesh = {.shape = {replicas, world / replicas}, .names = {"replicate", "shard"}};
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 1.0 / 16};
  scenario.script.input = {2, 5};
  scenario.script.input_divisor = 1;
  give_one_hot_inputs(scenario.script);
  for (const bool is_skipped : {true, false, false, false, true}) {
    Action forward{.kind = ActionKind::forward};
    if (is_skipped) forward.paths = {{"way", "skipped"}};
    scenario.script.segments.push_back({.body = {forward,
                                                 {.kind = ActionKind::backward},
                                                 {.kind = ActionKind::step},
                                                 {.kind = ActionKind::capture},
                                                 {.kind = ActionKind::zero_grad}}});
  }
  std::vector<Action>& first_that_comes = scenario.script.segments[1].body;
  first_that_comes.insert(first_that_comes.begin(), {.kind = ActionKind::forward, .fails_in = "way.later.in"});
  return scenario;
}

void play_later_root(Rank& rank, int replicas) {
  const Run run = play_accepted(rank, later_root(replicas, rank.world().size()));
  check_training(rank, run, oracles::Arithmetic::f32, exact_at_first, Moves::some_parameter);
  check_sound(rank, run);
  check_nothing_else_is_communicated(rank, run);
  check_memory(rank, run);
  check_freed_memory(rank, run);
}

StreamRole role_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::reduce_scatter: return StreamRole::reduce;
    case CollectiveKind::all_reduce: return StreamRole::all_reduce;
    default: return StreamRole::all_gather;
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/later_root", clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-12", "OVL-15", "OVL-16"),
                 ranks(1, 2, 3, 4), on_engines("fully_shard"), each("replicas", 1),
                 needs(Feature::timeline, Feature::module_groups, Feature::failed_forward)) {
  play_later_root(rank, 1);
}

RANKED_TEST_CASE("overlap/later_root", clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-12", "OVL-15", "OVL-16"),
                 ranks(2, 4), on_engines("fully_shard"), each("replicas", 2),
                 needs(Feature::timeline, Feature::module_groups, Feature::failed_forward, Feature::replicated_mesh)) {
  play_later_root(rank, 2);
}

RANKED_TEST_CASE("overlap/streams_of_later_root", clauses("OVL-27"), ranks(4), on_engines("fully_shard"),
                 needs(Feature::timeline, Feature::module_groups, Feature::failed_forward, Feature::replicated_mesh),
                 tags("reference")) {
  const Run run = play_accepted(rank, later_root(2, rank.world().size()));
  const std::map<std::uint32_t, StreamInfo> streams = shardproof::streams(run.trace());
  std::map<CollectiveKind, int> counts;
  for (const Fact& fact : run.trace().facts) {
    const auto* call = std::get_if<fact::Collective>(&fact);
    if (call == nullptr || !call->tag.starts_with("way.")) continue;
    ++counts[call->kind];
    CAPTURE(to_string(call->kind), call->tag, call->start);
    CHECK(streams.at(call->stream).role == role_of(call->kind));
  }
  // Two groups in a forward that fails, and three groups in three iterations. The group of the root stays whole for its
  // backward.
  CHECK(counts[CollectiveKind::all_gather] == 2 + 3 * 5);
  CHECK(counts[CollectiveKind::reduce_scatter] == 3 * 3);
  CHECK(counts[CollectiveKind::all_reduce] == 3 * 3);
  // Each root has its own streams.
  CHECK(std::ranges::count(streams, StreamRole::all_gather, [](const auto& stream) { return stream.second.role; }) ==
        3);
}

}  // namespace shardproof::overlap
