// Extensions together with everything else that an engine does.
#include <utility>

#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/hooks.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

using scenario::Action;
using scenario::ActionKind;
using scenario::ExtensionKind;
using scenario::Scenario;
using scenario::TensorKind;

namespace {

// What every run with extensions owes, when every iteration has so many backwards.
void check_run(Rank& rank, const scenario::Run& run, const Tolerance& tolerance, int iterations, int backwards = 1) {
  check_training(rank, run, oracles::Arithmetic::f32, tolerance, Moves::some_parameter);
  check_hooks(rank, run);
  check_sound(rank, run);
  for (int i = 0; i < iterations; ++i) check_nothing_is_left(run, i, backwards);
}

// One group that has parameters of several sorts, so that one all-gather carries them all.
Scenario one_group(const std::string& with, scenario::ReshardAfterForward reshard) {
  Scenario scenario;
  if (with == "kinds") {
    scenario = layers({TensorKind::two_tensor, TensorKind::low_precision, TensorKind::plain}, reshard);
    train(scenario, 2,
          {extend(TensorKind::two_tensor, ExtensionKind::components),
           extend(TensorKind::low_precision, ExtensionKind::int8, scenario::ExtensionForm::minimal),
           extend("l2.weight", ExtensionKind::bf16)});
  } else {
    scenario = layers({TensorKind::two_tensor, TensorKind::plain}, reshard);
    if (with == "bias") {
      for (scenario::Module& layer : scenario.model.root.children) layer.bias = true;
    } else {
      scenario.model.root.children.insert(scenario.model.root.children.begin() + 1,
                                          {.name = "ln", .kind = scenario::ModuleKind::layer_norm, .features = 6});
    }
    train(scenario, 2, {extend(TensorKind::two_tensor, ExtensionKind::components)});
  }
  scenario.plan.wrap = {{{""}, reshard}};
  return scenario;
}

// Calls that come before each forward, and between it and its backward.
Scenario with_calls(const std::vector<Action>& before, const std::vector<Action>& between, scenario::ReshardAfterForward reshard) {
  Scenario scenario = layers({TensorKind::two_tensor, TensorKind::plain}, reshard);
  train(scenario, 2, {});
  std::vector<Action>& body = scenario.script.segments.front().body;
  scenario.script.segments = {{.body = {body}}, {.body = {body}}};
  for (auto& segment : scenario.script.segments) {
    segment.body.insert(segment.body.begin() + 1, between.begin(), between.end());
    segment.body.insert(segment.body.begin(), before.begin(), before.end());
  }
  std::vector<Action>& first = scenario.script.segments.front().body;
  first.insert(first.begin(), extend(TensorKind::two_tensor, ExtensionKind::components));
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("extensions/one_group", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9"), ranks(1, 2, 3, 4),
                 each("with", "bias", "layer_norm", "kinds"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::all_gather_extensions, Feature::language_model)) {
  const bool is_normal = rank.param("with") == "layer_norm";  // which divides
  check_run(rank, play_accepted(rank, one_group(rank.param("with"), reshard_of(rank))),
            is_normal ? Tolerance{.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-4} : exact_unless_thirds(rank), 2);
}

RANKED_TEST_CASE("extensions/prefetch", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9"), ranks(1, 2, 3, 4),
                 each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::all_gather_extensions, Feature::prefetch_lists)) {
  Scenario scenario = blocks({.rows = 5, .reshard = reshard_of(rank)});
  scenario.plan.wrap[0].forward_prefetch = {"1", "2"};
  scenario.plan.wrap[1].forward_prefetch = {"2"};
  scenario.plan.wrap[2].backward_prefetch = {"1", "0"};
  train(scenario, 2, {extend(TensorKind::two_tensor, ExtensionKind::components)});
  check_run(rank, play_accepted(rank, scenario), {.loss = 1e-4, .gradient = 1e-4, .parameter = 1e-5}, 2);
}

RANKED_TEST_CASE("extensions/micro_batches", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9"), ranks(1, 2, 3, 4),
                 each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::all_gather_extensions, Feature::gradient_accumulation)) {
  const auto sync = [](bool value) { return Action{.kind = ActionKind::set_requires_gradient_sync, .value = value}; };
  const Scenario scenario = with_calls({sync(false), {ActionKind::forward}, {ActionKind::backward}, sync(true)}, {}, reshard_of(rank));
  check_run(rank, play_accepted(rank, scenario), exact_unless_thirds(rank), 2, 2);
}

RANKED_TEST_CASE("extensions/unshard_by_hand", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9"), ranks(1, 2, 3, 4),
                 each("async", false, true), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::all_gather_extensions, Feature::manual_unshard)) {
  // By hand before forward; and after it what forward keeps goes by hand, and comes again.
  const Scenario scenario = with_calls({{.kind = ActionKind::unshard, .module = "l0", .async = rank.param<bool>("async")}},
                                       {{.kind = ActionKind::reshard, .module = "l0"}}, reshard_of(rank));
  check_run(rank, play_accepted(rank, scenario), exact_unless_thirds(rank), 2);
}

RANKED_TEST_CASE("extensions/mesh", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11"), ranks(2, 4),
                 each("replicas", 1, 2), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::all_gather_extensions, Feature::replicated_mesh)) {
  const int replicas = rank.param<int>("replicas");
  Scenario scenario = layers({TensorKind::two_tensor, TensorKind::plain}, reshard_of(rank));
  scenario.plan.mesh = {.shape = {replicas, rank.world().size() / replicas}, .names = {"replicate", "shard"}};
  train(scenario, 2, {extend(TensorKind::two_tensor, ExtensionKind::components)});
  check_run(rank, play_accepted(rank, scenario), {}, 2);
}

}  // namespace shardproof::extensions
