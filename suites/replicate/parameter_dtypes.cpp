// Modules whose parameters have a low precision, beside others in f32.
#include <shardproof.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "fixtures/oracles/buckets.hpp"
#include "fixtures/oracles/rounding.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/own_gradients.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/replicate/plans.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

using scenario::Action;
using scenario::ActionKind;
using scenario::HookKind;

namespace {

DType low_dtype(Rank& rank) { return rank.param("dtype") == to_string(DType::f16) ? DType::f16 : DType::bf16; }

// The second layer of `exact_net` is low. Three buckets: [1.bias 1.weight] of the low precision, [0.bias] and [0.weight].
scenario::Scenario low_net(DType dtype, std::vector<Action> body) {
  scenario::Scenario scenario = exact_net(true, std::move(body));
  scenario::ReplicatePlan& plan = scenario::replicate(scenario.plan);
  plan.parameter_dtypes["1"] = dtype;
  plan.first_bucket_bytes = 24;
  return scenario;
}

// Sums of products have more bits than a low precision, so that the layer rounds.
scenario::Scenario with_large_inputs(scenario::Scenario scenario) {
  for (auto& iteration : scenario.script.given) {
    for (auto& input : iteration) {
      for (double& value : input) value *= 521;
    }
  }
  return scenario;
}

// Low precision has to change some loss, gradient or parameter: else the case would show nothing.
void require_rounding(const scenario::Scenario& scenario, int world) {
  scenario::Scenario whole = scenario;
  scenario::replicate(whole.plan).parameter_dtypes.clear();
  const auto low = oracles::train_serially(scenario, world, oracles::Arithmetic::f32),
             wide = oracles::train_serially(whole, world, oracles::Arithmetic::f32);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (low[i].losses != wide[i].losses) ++differing;
    for (std::size_t p = 0; p < low[i].parameters.size(); ++p) {
      if (low[i].gradients[p].tensor() != wide[i].gradients[p].tensor() || low[i].parameters[p].tensor() != wide[i].parameters[p].tensor())
        ++differing;
    }
  }
  REQUIRE(differing > 0);
}

std::uint64_t bytes_of_gradients(const scenario::Scenario& scenario) {
  return static_cast<std::uint64_t>(oracles::bytes_of(oracles::trainable_gradients(scenario)));
}

// Some layers of random ones are low, and at least one is not.
scenario::Scenario random_low_layers(std::mt19937_64& random) {
  scenario::Scenario scenario = random_layers(random);
  const std::vector<scenario::Module>& layers = scenario.model.root.children;
  std::map<std::string, DType>& dtypes = scenario::replicate(scenario.plan).parameter_dtypes;
  const auto wide = static_cast<std::size_t>(pick(random, 0, std::ssize(layers) - 1));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t drawn = pick(random, 0, 3);
    if (i != wide && drawn > 0) dtypes[layers[i].name] = drawn == 1 ? DType::f16 : DType::bf16;
  }
  if (dtypes.empty()) dtypes[layers[wide == 0 ? 1 : 0].name] = DType::bf16;
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("replicate/low_precision", clauses("REP-2", "REP-4", "REP-14", "REP-19"), ranks(1, 2, 4), each("dtype", "bf16", "f16"),
                 each("gradients", "copies", "views"), needs(Feature::timeline, ReplicateFeature::parameter_dtypes),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  scenario::Scenario scenario = with_last_step(with_large_inputs(low_net(low_dtype(rank), gradients_only())));
  if (rank.param("gradients") == "views") scenario::replicate(scenario.plan).gradients = scenario::BucketGradients::views;
  require_rounding(scenario, rank.world().size());
  const scenario::Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
  for (const scenario::Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(iteration.live_after(MemoryClass::gradient, ActionKind::backward).bytes == bytes_of_gradients(scenario));
    CHECK(iteration.peak(MemoryClass::reduce_input).bytes <= bytes_of_gradients(scenario));
  }
  CHECK(run.left_alive() == 0);
}

// The layer after the low one is frozen, so that gradients stay small however often the optimizer steps.
RANKED_TEST_CASE("replicate/low_precision_steps", clauses("REP-19"), ranks(1, 2, 4), each("dtype", "bf16", "f16"),
                 each("optimizer", "sgd", "momentum"), needs(Feature::module_groups, ReplicateFeature::parameter_dtypes)) {
  scenario::Scenario scenario = exact_net(true, training());
  scenario::replicate(scenario.plan).parameter_dtypes["0"] = low_dtype(rank);
  scenario.model.root.children.back().frozen = true;
  scenario.plan.optimizer.rate = low_dtype(rank) == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  if (rank.param("optimizer") == "momentum") scenario.plan.optimizer.momentum = 0.5;
  require_rounding(scenario, rank.world().size());
  const scenario::Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
}

// Gradients that wait are added up in the low precision.
RANKED_TEST_CASE("replicate/low_precision_no_sync", clauses("REP-6", "REP-19"), ranks(1, 2, 4), each("dtype", "bf16", "f16"),
                 needs(Feature::timeline, Feature::gradient_accumulation, ReplicateFeature::parameter_dtypes)) {
  const scenario::Scenario scenario = with_large_inputs(low_net(low_dtype(rank), {sync(false),
                                                                                  {ActionKind::forward},
                                                                                  {ActionKind::backward},
                                                                                  {ActionKind::capture},
                                                                                  {ActionKind::forward},
                                                                                  {ActionKind::backward},
                                                                                  {ActionKind::capture},
                                                                                  sync(true),
                                                                                  {ActionKind::forward},
                                                                                  {ActionKind::backward},
                                                                                  {ActionKind::capture},
                                                                                  {ActionKind::zero_grad}}));
  scenario::Scenario stepping = with_last_step(scenario);
  require_rounding(stepping, rank.world().size());
  const scenario::Run run = play_accepted(rank, stepping);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  std::vector<scenario::Iteration> waiting = steady_iterations(run);
  waiting.pop_back();  // that of the step
  for (const scenario::Iteration& iteration : waiting) {
    CAPTURE(iteration.index());
    CHECK(calls_in_backward(iteration, 1).empty());
    CHECK(calls_in_backward(iteration, 2).empty());
    CHECK(calls_in_backward(iteration, 3).empty() == (rank.world().size() == 1));
  }
  check_sound(rank, run);
}

// The hook gets buckets of one dtype each, and the engine returns gradients of this dtype.
RANKED_TEST_CASE("replicate/low_precision_hook", clauses("REP-9", "REP-19"), ranks(1, 2, 4), each("dtype", "bf16", "f16"),
                 each("hook", "plain", "sum"),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes, ReplicateFeature::gradient_hooks)) {
  scenario::Scenario scenario = with_large_inputs(low_net(low_dtype(rank), gradients_only()));
  scenario.script.keep_tensors = true;
  const HookKind kind = rank.param("hook") == "sum" ? HookKind::sum : HookKind::plain;
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {.body = {{.kind = ActionKind::register_hook, .hook = scenario::Hook{.kind = kind}}}});
  scenario = with_last_step(std::move(scenario));
  require_rounding(scenario, rank.world().size());
  const scenario::Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_no_race(rank, run);
  for (const scenario::Iteration& iteration : run.iterations()) {
    if (iteration.index() == 0) continue;  // that registers the hook
    CAPTURE(iteration.index());
    std::map<DType, std::int64_t> elements;
    for (const scenario::Callback* call : run.callbacks({.kind = scenario::CallbackKind::gradient_hook, .iteration = iteration.index()}))
      elements[call->tensors.at(0).dtype()] += call->tensors.at(0).numel();
    CHECK(elements == std::map<DType, std::int64_t>{{low_dtype(rank), 21}, {DType::f32, 30}});
  }
}

// A bucket that has the hook's dtype is neither cast nor rounded once more.
RANKED_TEST_CASE("replicate/low_precision_compressed", clauses("REP-10", "REP-19"), ranks(1, 2, 4), each("dtype", "bf16", "f16"),
                 each("hook", "bf16", "f16"), each("step", "eager", "compiled"),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes, ReplicateFeature::compressing_hooks),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  const DType hook = rank.param("hook") == "f16" ? DType::f16 : DType::bf16;
  scenario::Scenario scenario = with_large_inputs(low_net(low_dtype(rank), gradients_only()));
  scenario.model.loss.divisor = 16;  // gradients of f16 stay below its largest number
  if (rank.param("step") == "compiled") scenario::replicate(scenario.plan).compile.emplace();
  const HookKind kind = hook == DType::f16 ? HookKind::fp16_compress : HookKind::bf16_compress;
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {.body = {{.kind = ActionKind::register_hook, .hook = scenario::Hook{.kind = kind}}}});
  scenario = with_last_step(std::move(scenario));
  require_rounding(scenario, rank.world().size());
  const scenario::Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_no_race(rank, run);
  for (const scenario::Iteration& iteration : run.iterations()) {
    CAPTURE(iteration.index());
    for (const fact::Collective& call : bucket_calls(iteration)) CHECK(call.dtype == hook);
    if (iteration.index() > 0 && rank.world().size() > 1) CHECK_FALSE(bucket_calls(iteration).empty());
  }
}

// Buckets of one dtype know nothing of those of another.
RANKED_TEST_CASE("replicate/dtype_buckets", clauses("REP-20"), ranks(2, 4), each("set", 0, 1, 2, 3, 4, 5),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  scenario::Scenario scenario = random_low_layers(random);
  draw_limits(scenario, oracles::ready_order(scenario.model), rank.param<int>("set") % 2 == 0, random);
  const scenario::Run run = play_accepted(rank, scenario);
  check_bucket_sizes(rank, run);
  check_reduced_once(rank, run);
  check_no_race(rank, run);
}

RANKED_TEST_CASE("replicate/dtype_buckets_of_construction", clauses("REP-22"), ranks(2, 3), each("set", 0, 1, 2, 3),
                 needs(Feature::timeline, ReplicateFeature::unused_parameters, ReplicateFeature::parameter_dtypes), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  scenario::Scenario scenario = random_low_layers(random);
  scenario::ReplicatePlan& plan = scenario::replicate(scenario.plan);
  plan.unused_parameters = true;
  draw_limits(scenario, oracles::ready_order(scenario.model), rank.param<int>("set") % 2 == 0, random);
  // PyTorch drops the limit of the first bucket at construction if it is not the lower one.
  if (plan.first_bucket_bytes > plan.bucket_bytes) std::swap(plan.first_bucket_bytes, plan.bucket_bytes);
  const scenario::Run run = play_accepted(rank, scenario);
  check_bucket_sizes(rank, run);
  check_reduced_once(rank, run);
}

RANKED_TEST_CASE("replicate/low_precision_compiled", clauses("REP-19", "REP-40", "REP-41"), ranks(1, 2, 4), each("dtype", "bf16", "f16"),
                 each("fusion", "concat", "coalesce", "none"), each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes, ReplicateFeature::compiled_step)) {
  scenario::Scenario scenario = with_last_step(with_large_inputs(low_net(low_dtype(rank), gradients_only())));
  scenario::replicate(scenario.plan).compile = compile_plan(rank);
  require_rounding(scenario, rank.world().size());
  const scenario::Run run = play_accepted(rank, scenario);
  check_equal(run, play_accepted(rank, eager(scenario)));
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_ran_as_planned(run);
  check_no_race(rank, run);
  check_same_order(rank, run);
  CHECK(run.left_alive() == 0);
}

RANKED_TEST_CASE("replicate/dtype_plan", clauses("REP-42"), ranks(2, 4), each("fusion", "concat", "coalesce"),
                 each("region", "forward_backward", "backward"), each("set", 0, 1, 2, 3),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes, ReplicateFeature::compiled_step), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  scenario::Scenario scenario = random_low_layers(random);
  scenario::replicate(scenario.plan).compile = compile_plan(rank);
  draw_limits(scenario, compiled_ready_order(scenario), rank.param<int>("set") % 2 == 0, random);
  const scenario::Run run = play_accepted(rank, scenario);
  REQUIRE(run.compiled_steps().size() == iterations);
  for (const scenario::CompiledStep& step : run.compiled_steps()) {
    CAPTURE(step.iteration);
    CHECK(reduction_plan(backward_of(step)) == expected_plan(scenario, rank.world().size(), false));
  }
  check_ran_as_planned(run);
  check_no_race(rank, run);
}

}  // namespace shardproof::replicate
