// Extensions together with everything else that an engine does.
#include <algorithm>
#include <utility>

#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/trace/memory.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/exact_inputs.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/hooks.hpp"
#include "suites/extensions/precision_scenarios.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

// The checks of every run with extensions, for iterations with `backwards` backwards.
void check_run(Rank& rank, const Run& run, const Tolerance& tolerance, int iterations, int backwards = 1) {
  check_training(rank, run, oracles::Arithmetic::f32, tolerance, Moves::some_parameter);
  check_hooks(rank, run);
  check_sound(rank, run);
  for (int i = 0; i < iterations; ++i) check_nothing_is_left(rank, run, i, backwards);
}

// One group with parameters of several kinds, so that one all-gather carries them all.
Scenario one_group(const std::string& with, ReshardAfterForward reshard) {
  Scenario scenario;
  if (with == "kinds") {
    scenario = layers({TensorKind::two_tensor, TensorKind::low_precision, TensorKind::plain}, reshard);
    train(scenario, 2,
          {extend(TensorKind::two_tensor, ExtensionKind::components),
           extend(TensorKind::low_precision, ExtensionKind::int8, ExtensionForm::minimal),
           extend("l2.weight", ExtensionKind::bf16)});
    // With three layers, the second forward is exact only if values have few bits.
    scenario.model.loss.dot_seed = 63;  // gradients -4, 1, -1 and -2
    give_one_hot_inputs(scenario.script);
  } else {
    scenario = layers({TensorKind::two_tensor, TensorKind::plain}, reshard);
    if (with == "bias") {
      for (Module& layer : scenario.model.root.children) layer.bias = true;
    } else {
      scenario.model.root.children.insert(scenario.model.root.children.begin() + 1,
                                          {.name = "ln", .kind = ModuleKind::layer_norm, .features = 6});
    }
    train(scenario, 2, {extend(TensorKind::two_tensor, ExtensionKind::components)});
  }
  fully_shard_plan(scenario.plan).wrap = {{{""}, reshard}};
  return scenario;
}

// Calls that come before each forward, and between it and its backward.
Scenario with_calls(const std::vector<Action>& before, const std::vector<Action>& between,
                    ReshardAfterForward reshard) {
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

// One group under a policy. Hooks contribute two parameters in fewer bits, one parameter is sharded along its second
// dimension, and one parameter has no use. An iteration has three backwards. The gradients of the first one are dropped
// unreduced, and the gradients of the second one wait for the third.
Scenario under_a_policy(const MixedPrecision& policy, ReshardAfterForward reshard) {
  Scenario scenario;
  scenario.model.root.children = {
      weight("l0", 4, 5, TensorKind::low_precision),
      weight("l1", 5, 12, TensorKind::low_precision),
      weight("l2", 12, 4, TensorKind::plain),
      {.name = "spare", .kind = ModuleKind::list, .children = {weight("l", 3, 3, TensorKind::plain)}}};
  scenario.model.loss = {.kind = LossKind::dot, .dot_seed = 17};
  fully_shard_plan(scenario.plan).wrap = {{{""}, reshard}};
  fully_shard_plan(scenario.plan).shard_dims = {{"l2.weight", 1}};
  scenario.plan.optimizer = {.rate = 0.0625};
  scenario.plan.mixed_precision = policy;
  scenario.script.input = {2, 4};
  scenario.script.keep_tensors = true;
  const auto sync = [](bool value) { return Action{.kind = ActionKind::set_requires_gradient_sync, .value = value}; };
  std::vector<Action> body{sync(false),
                           {ActionKind::forward},
                           {ActionKind::backward},
                           {ActionKind::zero_grad},
                           {ActionKind::forward},
                           {ActionKind::backward},
                           sync(true),
                           {ActionKind::forward},
                           {ActionKind::backward},
                           {ActionKind::step},
                           {ActionKind::capture},
                           {ActionKind::zero_grad}};
  scenario.script.segments = {{.body = {extend("l0.weight", ExtensionKind::int8, ExtensionForm::minimal),
                                        extend("l1.weight", ExtensionKind::bf16)}},
                              {.iterations = 2, .body = std::move(body)}};
  return scenario;
}

// For a run with one group of all parameters: checks that its all-gathers move the hooks' contributions, and the other
// parameters' rows in `dtype`.
void check_bytes_gathered(Rank& rank, const Run& run, DType dtype) {
  const auto world = static_cast<std::int64_t>(rank.world().size());
  std::uint64_t expected = 0;
  for (const ParameterShape& parameter : parameters(run.scenario().model)) {
    const auto calls = run.callbacks({.kind = CallbackKind::pre_all_gather, .name = parameter.name});
    const bool is_dealt_in_rows = !fully_shard_plan(run.scenario().plan).shard_dims.contains(parameter.name);
    const std::int64_t rows = is_dealt_in_rows ? (parameter.shape[0] + world - 1) / world * world : parameter.shape[0];
    if (calls.empty()) expected += static_cast<std::uint64_t>(rows * parameter.shape[1] / world) * size_of(dtype);
    else
      for (const Tensor& tensor : calls.front()->tensors) expected += tensor.bytes();
  }
  const auto judged = rank.under("EXT-20");
  const auto gathers = parameter_gathers(run);
  for (const fact::Collective& call : gathers) {
    REQUIRE_FALSE(call.reads.empty());
    CHECK(call.reads.front().length == expected);
  }
  CHECK(gathers.empty() == (world == 1));
}

}  // namespace

RANKED_TEST_CASE("extensions/one_group", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9"),
                 ranks(1, 2, 3, 4), each("with", "bias", "layer_norm", "kinds"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::all_gather_extensions, Feature::language_model)) {
  const bool is_normal = rank.param("with") == "layer_norm";  // which divides
  check_run(rank, play_accepted(rank, one_group(rank.param("with"), reshard_of(rank))),
            is_normal ? Tolerance{.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-4} : exact_unless_mean_rounds(rank),
            2);
}

// Hooks see all three dimensions of a weight, of which ranks share the first one: evenly, unevenly, and with a rank
// that has no row.
RANKED_TEST_CASE("extensions/convolution",
                 clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11"), ranks(1, 2, 3, 4),
                 each("form", "full", "minimal"), each("kind", "plain", "two_tensor"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::convolution, Feature::all_gather_extensions)) {
  const bool is_pair = rank.param("kind") == "two_tensor";
  Scenario scenario =
      layers({TensorKind::plain, is_pair ? TensorKind::two_tensor : TensorKind::plain}, reshard_of(rank));
  Module& window = scenario.model.root.children.back();
  window.kind = ModuleKind::convolution;
  window.channels = 3;
  scenario.model.loss.dot_seed = 169;  // gradients 1, -1 and 2
  scenario.plan.optimizer.rate = 0.25;
  give_one_hot_inputs(scenario.script);
  train(scenario, 3,
        {is_pair ? extend(TensorKind::two_tensor, ExtensionKind::components, form_of(rank))
                 : extend("l1.weight", ExtensionKind::components, form_of(rank))});
  const Run run = play_accepted(rank, scenario);
  check_run(rank, run, exact_unless_mean_rounds(rank), 3);
  const auto judged = rank.under("EXT-2");
  CHECK(hooked_parameters(run) == std::vector<std::string>{"l1.weight"});
  const std::int64_t rows = (3 + rank.world().size() - 1) / rank.world().size();
  const auto judged_shards = rank.under("EXT-10");
  for (const Callback* call : run.callbacks({.kind = CallbackKind::pre_all_gather})) {
    CHECK(call->tensors.size() == (is_pair ? 2U : 1U));
    for (const Tensor& tensor : call->tensors) CHECK(tensor.shape() == Shape{rows, 3, 2});
  }
}

RANKED_TEST_CASE("extensions/under_a_policy",
                 clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-11", "EXT-20", "EXT-22"),
                 ranks(1, 2, 3, 4), each("param", "bf16", "f16"), each("reshard", false, true),
                 needs(Feature::timeline, Feature::module_groups, FullyShardFeature::shard_dims,
                       Feature::all_gather_extensions, Feature::mixed_precision, Feature::gradient_accumulation)) {
  const DType param = *dtype_named(rank.param("param"));
  const Run run = play_accepted(rank, under_a_policy({.param = param}, reshard_of(rank)));
  check_kept_in_single_precision(rank, run);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_hooks(rank, run);
  check_sound(rank, run);
  check_bytes_gathered(rank, run, param);
  const auto alive = [&run](MemoryClass memory, int iteration, ActionKind call, bool end) {
    return trace::at(run.trace(), memory, mark(iteration, call, end));
  };
  const auto judged = rank.under("EXT-9");
  CHECK(run.peak(MemoryClass::shard) == alive(MemoryClass::shard, 1, ActionKind::forward, false));
  for (const int iteration : {1, 2}) {
    CAPTURE(iteration);
    const bool stays_whole = alive(MemoryClass::parameter, iteration, ActionKind::forward, true).buffers > 0;
    CHECK(stays_whole == !rank.param<bool>("reshard"));
    CHECK(alive(MemoryClass::gradient, iteration, ActionKind::forward, true).buffers == 0);
    CHECK(alive(MemoryClass::gradient, iteration, ActionKind::backward, true).buffers > 0);
    CHECK(alive(MemoryClass::sharded_gradient, iteration, ActionKind::backward, true).buffers == 0);
    check_nothing_is_left(rank, run, iteration, 3);
  }
}

RANKED_TEST_CASE("extensions/prefetch", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9"),
                 ranks(1, 2, 3, 4), each("reshard", false, true),
                 needs(Feature::timeline, Feature::all_gather_extensions, FullyShardFeature::prefetch_lists)) {
  Scenario scenario = blocks({.rows = 5, .reshard = reshard_of(rank)});
  fully_shard_plan(scenario.plan).wrap[0].forward_prefetch = {"1", "2"};
  fully_shard_plan(scenario.plan).wrap[1].forward_prefetch = {"2"};
  fully_shard_plan(scenario.plan).wrap[2].backward_prefetch = {"1", "0"};
  train(scenario, 2, {extend(TensorKind::two_tensor, ExtensionKind::components)});
  check_run(rank, play_accepted(rank, scenario), {.loss = 1e-4, .gradient = 1e-4, .parameter = 1e-5}, 2);
}

RANKED_TEST_CASE("extensions/micro_batches", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9"),
                 ranks(1, 2, 3, 4), each("reshard", false, true),
                 needs(Feature::timeline, Feature::all_gather_extensions, Feature::gradient_accumulation)) {
  const auto sync = [](bool value) { return Action{.kind = ActionKind::set_requires_gradient_sync, .value = value}; };
  const Scenario scenario =
      with_calls({sync(false), {ActionKind::forward}, {ActionKind::backward}, sync(true)}, {}, reshard_of(rank));
  check_run(rank, play_accepted(rank, scenario), exact_unless_mean_rounds(rank), 2, 2);
}

RANKED_TEST_CASE("extensions/unshard_by_hand", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9"),
                 ranks(1, 2, 3, 4), each("async", false, true), each("reshard", false, true),
                 needs(Feature::timeline, Feature::all_gather_extensions, FullyShardFeature::manual_unshard)) {
  // A manual unshard before forward. After forward, a manual reshard frees the kept parameters, and they are gathered
  // again.
  const Scenario scenario =
      with_calls({{.kind = ActionKind::unshard, .module = "l0", .async = rank.param<bool>("async")}},
                 {{.kind = ActionKind::reshard, .module = "l0"}}, reshard_of(rank));
  check_run(rank, play_accepted(rank, scenario), exact_unless_mean_rounds(rank), 2);
}

RANKED_TEST_CASE("extensions/mesh", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11"),
                 ranks(2, 4), each("replicas", 1, 2), each("reshard", false, true),
                 needs(Feature::timeline, Feature::all_gather_extensions, Feature::replicated_mesh)) {
  const int replicas = rank.param<int>("replicas");
  Scenario scenario = layers({TensorKind::two_tensor, TensorKind::plain}, reshard_of(rank));
  scenario.plan.mesh = {.shape = {replicas, rank.world().size() / replicas}, .names = {"replicate", "shard"}};
  train(scenario, 2, {extend(TensorKind::two_tensor, ExtensionKind::components)});
  check_run(rank, play_accepted(rank, scenario), {}, 2);
}

}  // namespace shardproof::extensions
