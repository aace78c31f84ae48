// Refusals of parameters that hooks cannot gather. Every rank must refuse alike, before a rank waits, and the world
// must stay usable.
#include <fmt/format.h>

#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

Scenario trained_pair(const Action& extension) {
  Scenario scenario = layers({TensorKind::two_tensor, TensorKind::plain}, {});
  train(scenario, 1, {extension});
  return scenario;
}

// The pair is in a root that the first two iterations skip.
Scenario later_pair(const Action& extension, std::int64_t rows) {
  Scenario scenario = layers({TensorKind::plain}, {});
  scenario.model.root.children.push_back(
      {.name = "way",
       .kind = ModuleKind::choice,
       .children = {weight("pair", 6, rows, TensorKind::two_tensor), weight("other", 6, rows, TensorKind::plain)}});
  fully_shard_plan(scenario.plan).wrap = {{.modules = {"l0"}}, {.modules = {"way.pair"}}, {.modules = {"way.other"}}};
  train(scenario, 2, {extension});
  std::vector<Script::Segment>& segments = scenario.script.segments;
  for (Script::Segment& segment : segments) {
    for (Action& action : segment.body) {
      if (action.kind == ActionKind::forward) action.paths = {{"way", "other"}};
    }
  }
  segments.push_back(
      {.body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::capture}}});
  return scenario;
}

// The scenario that is right, after one that was refused.
void check_world_lives_on(Rank& rank) {
  check_training(rank, play_accepted(rank, trained_pair(extend(TensorKind::two_tensor, ExtensionKind::components))),
                 oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
}

}  // namespace

RANKED_TEST_CASE("extensions/refused_registration", clauses("EXT-4"), ranks(1, 2, 3, 4), also_with_discarded_module(),
                 each("target", "parameter", "kind"), each("mistake", "no_post", "no_pre", "no_hook", "late"),
                 needs(Feature::all_gather_extensions)) {
  const std::string& mistake = rank.param("mistake");
  const bool is_one = rank.param("target") == "parameter";
  Action wrong = is_one ? extend("l0.weight", ExtensionKind::components)
                        : extend(TensorKind::two_tensor, ExtensionKind::components);
  Scenario scenario;
  std::vector<std::string> culprits{"extension"};
  if (mistake == "late") {
    scenario = trained_pair(wrong);
    scenario.script.segments.front().body.push_back(wrong);
  } else {
    wrong.extension->pre = mistake == "no_post";
    wrong.extension->post = mistake == "no_pre";
    scenario = trained_pair(wrong);
    culprits = {is_one ? "l0.weight" : "two_tensor", "hook"};
    if (mistake != "no_hook") culprits.emplace_back(mistake == "no_post" ? "post" : "pre");
  }
  check_refused(rank, scenario, "extend", culprits);
  check_world_lives_on(rank);
}

RANKED_TEST_CASE("extensions/refused_pair", clauses("EXT-5"), ranks(1, 2, 3, 4), also_with_discarded_module(),
                 needs(Feature::ignored_parameters, Feature::all_gather_extensions)) {
  // An extension of another parameter does not apply to this one.
  check_refused(rank, trained_pair(extend("l1.weight", ExtensionKind::components)), "forward", {"l0.weight"});
  Scenario left_out = layers({TensorKind::two_tensor, TensorKind::plain}, {});
  train(left_out, 1, {});
  fully_shard_plan(left_out.plan).ignored_parameters = {"l0.weight"};
  check_refused(rank, left_out, "create", {"l0.weight"});
  fully_shard_plan(left_out.plan).ignored_parameters.clear();
  fully_shard_plan(left_out.plan).wrap = {{.modules = {"l1"}}};
  check_refused(rank, left_out, "create", {"l0.weight"});
  check_world_lives_on(rank);
}

RANKED_TEST_CASE("extensions/refused_sizes", clauses("EXT-6"), ranks(2, 3, 4), each("extension", "unpadded"),
                 each("form", "minimal", "full"), needs(Feature::all_gather_extensions)) {
  const int world = rank.world().size();
  Scenario scenario = trained_pair(extend(TensorKind::two_tensor, ExtensionKind::unpadded, form_of(rank)));
  scenario.model.root.children[0].out_features = scenario.model.root.children[1].in_features = 2 * world - 1;
  // Four columns: two rows of every rank but the last, which has one.
  check_refused(rank, scenario, "forward", {"l0.weight", " 8", " 4"});
  check_world_lives_on(rank);
}

RANKED_TEST_CASE("extensions/refused_sizes", clauses("EXT-6"), ranks(1, 2, 3, 4), each("extension", "truncated"),
                 each("form", "minimal", "full"), needs(Feature::all_gather_extensions)) {
  const int world = rank.world().size();
  Scenario scenario = trained_pair(extend(TensorKind::two_tensor, ExtensionKind::truncated, form_of(rank)));
  scenario.model.root.children[0].out_features = scenario.model.root.children[1].in_features = 3 * world;
  // In the full form the ranks' contributions are too small. In the minimal form this shows only when the post hook has
  // made the whole parameter.
  const bool full = form_of(rank) == ExtensionForm::full;
  const std::string found = full ? " 8" : fmt::format("[{}, 4]", 2 * world),
                    expected = full ? " 12" : fmt::format("[{}, 4]", 3 * world);
  check_refused(rank, scenario, "forward", {"l0.weight", found, expected});
  check_world_lives_on(rank);
}

RANKED_TEST_CASE("extensions/refused_sizes_later", clauses("EXT-6"), ranks(2, 3, 4),
                 each("extension", "unpadded", "truncated"), each("form", "minimal", "full"),
                 needs(Feature::all_gather_extensions, Feature::module_groups, Feature::replicated_mesh)) {
  const std::int64_t rows = 2 * rank.world().size() - 1;
  const auto pair = [&](ExtensionKind extension) {
    return later_pair(extend(TensorKind::two_tensor, extension, form_of(rank)), rows);
  };
  const bool is_unpadded = rank.param("extension") == "unpadded";
  check_refused(rank, pair(is_unpadded ? ExtensionKind::unpadded : ExtensionKind::truncated), "forward",
                {"way.pair.weight"});
  Scenario right = pair(ExtensionKind::components);
  check_training(rank, play_accepted(rank, right), oracles::Arithmetic::f32, exact_unless_mean_rounds(rank),
                 Moves::some_parameter);
  right.plan.mesh = {.shape = {rank.world().size(), 1}, .names = {"replicate", "shard"}};
  check_training(rank, play_accepted(rank, right), oracles::Arithmetic::f32, exact_unless_mean_rounds(rank),
                 Moves::some_parameter);
}

RANKED_TEST_CASE("extensions/parts_over_fewer_ranks", clauses("EXT-12"), ranks(4),
                 needs(Feature::all_gather_extensions, FullyShardFeature::reshard_to_size)) {
  Scenario scenario = trained_pair(extend(TensorKind::two_tensor, ExtensionKind::components));
  const auto keeps = [&scenario](int ranks) {
    fully_shard_plan(scenario.plan).wrap.front().reshard_after_forward = {ReshardAfterForward::Kind::size, ranks};
    return scenario;
  };
  check_refused(rank, keeps(2), "forward", {"l0.weight", "2"});
  for (const int ranks : {1, 4}) {
    CAPTURE(ranks);
    check_training(rank, play_accepted(rank, keeps(ranks)), oracles::Arithmetic::f32, {});
  }
}

}  // namespace shardproof::extensions
