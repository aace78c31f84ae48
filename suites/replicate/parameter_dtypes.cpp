// Modules with low-precision parameters, together with modules in f32.
#include <shardproof.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/oracles/buckets.hpp"
#include "fixtures/oracles/rounding.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/replicate/plans.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

namespace {

DType low_dtype(Rank& rank) { return rank.param("dtype") == to_string(DType::f16) ? DType::f16 : DType::bf16; }

// The second layer of `exact_net` is low. Three buckets: [1.bias 1.weight] of the low precision, [0.bias] and
// [0.weight].
Scenario low_net(DType dtype, std::vector<Action> body) {
  Scenario scenario = exact_net(true, std::move(body));
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.parameter_dtypes["1"] = dtype;
  plan.first_bucket_bytes = 24;
  return scenario;
}

// Products have more bits than a low precision, so that the layer rounds.
Scenario with_large_inputs(Scenario scenario) {
  int factor = 421;
  for (auto& iteration : scenario.script.given) {
    for (auto& input : iteration) {
      for (double& value : input) value *= factor;
    }
    factor += 66;
  }
  return scenario;
}

Scenario with_hook(Scenario scenario, HookKind kind) {
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {.body = {{.kind = ActionKind::register_hook, .hook = Hook{.kind = kind}}}});
  return scenario;
}

// Low precision has to change some loss, gradient or parameter: else the case would show nothing.
void require_rounding(const Scenario& scenario, int world) {
  Scenario whole = scenario;
  replicate_plan(whole.plan).parameter_dtypes.clear();
  const auto low = oracles::train_serially(scenario, world, oracles::Arithmetic::f32),
             wide = oracles::train_serially(whole, world, oracles::Arithmetic::f32);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < low.size(); ++i) {
    if (low[i].losses != wide[i].losses) ++differing;
    for (std::size_t p = 0; p < low[i].parameters.size(); ++p) {
      if (low[i].gradients[p].tensor() != wide[i].gradients[p].tensor() ||
          low[i].parameters[p].tensor() != wide[i].parameters[p].tensor())
        ++differing;
    }
  }
  REQUIRE(differing > 0);
}

// Whether it matters that gradients of three iterations are rounded as they are added up, and not only at the end.
void require_rounding_of_sums(Rank& rank, const Scenario& scenario) {
  const auto rounded = [low = low_dtype(rank)](double value) { return oracles::rounded_to(low, value); };
  std::vector<std::vector<NamedGradient>> own;
  for (int iteration = 0; iteration < 3; ++iteration) own.push_back(own_gradients(scenario, rank.index(), iteration));
  std::int64_t differing = 0;
  for (std::size_t p = 0; p < own[0].size(); ++p) {
    if (!own[0][p].name.starts_with("1.")) continue;
    for (std::size_t i = 0; i < own[0][p].values.size(); ++i) {
      const double first = own[0][p].values[i], second = own[1][p].values[i], third = own[2][p].values[i];
      if (rounded(rounded(first + second) + third) != rounded(first + second + third)) ++differing;
    }
  }
  REQUIRE(sum_over_ranks(rank, differing) > 0);
}

std::uint64_t bytes_of_gradients(const Scenario& scenario) {
  return static_cast<std::uint64_t>(oracles::bytes_of(oracles::trainable_gradients(scenario)));
}

// Whether some bucket would have several dtypes if buckets were filled by bytes alone.
bool mixes_dtypes_by_bytes(const Scenario& scenario, const std::vector<std::string>& ready) {
  const ReplicatePlan& plan = replicate_plan(scenario.plan);
  const auto all = oracles::trainable_gradients(scenario);
  std::vector<oracles::BucketedGradient> alike;
  for (const std::string& name : ready) {
    alike.push_back(*std::ranges::find(all, name, &oracles::BucketedGradient::parameter));
    alike.back().dtype = DType::f32;
  }
  const auto buckets = oracles::filled_buckets(alike, plan.first_bucket_bytes, plan.bucket_bytes);
  return std::ranges::any_of(buckets, [&](const oracles::Bucket& bucket) {
    return std::ranges::any_of(bucket, [&](const oracles::BucketedGradient& gradient) {
      return plan.dtype_of(gradient.parameter) != plan.dtype_of(bucket.front().parameter);
    });
  });
}

// Random layers, some of them low. Limits mix dtypes in the buckets of an engine that heeds bytes alone.
Scenario random_low_layers(Rank& rank, const std::optional<CompilePlan>& compile = {}) {
  std::mt19937_64 random(rank.seed());
  while (true) {
    Scenario scenario = random_layers(random);
    ReplicatePlan& plan = replicate_plan(scenario.plan);
    plan.compile = compile;
    for (const Module& layer : scenario.model.root.children) {
      const std::int64_t drawn = pick(random, 0, 3);
      if (drawn > 1) plan.parameter_dtypes[layer.name] = drawn == 2 ? DType::f16 : DType::bf16;
    }
    const std::vector<std::string> ready =
        compile ? compiled_ready_order(scenario) : oracles::ready_order(scenario.model);
    draw_limits(scenario, ready, rank.param<int>("set") % 2 == 0, random);
    if (mixes_dtypes_by_bytes(scenario, ready)) return scenario;
  }
}

}  // namespace

RANKED_TEST_CASE("replicate/low_precision", clauses("REP-2", "REP-4", "REP-14", "REP-19"), ranks(1, 2, 4),
                 each("dtype", "bf16", "f16"), each("gradients", "copies", "views"),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  skip_unless_sums_have_an_order(rank);
  Scenario scenario = with_last_step(with_large_inputs(low_net(low_dtype(rank), gradients_only())));
  if (rank.param("gradients") == "views") replicate_plan(scenario.plan).gradients = BucketGradients::views;
  require_rounding(scenario, rank.world().size());
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-14");
    CHECK(iteration.live_after(MemoryClass::gradient, ActionKind::backward).bytes == bytes_of_gradients(scenario));
    CHECK(iteration.peak(MemoryClass::reduce_input).bytes <= bytes_of_gradients(scenario));
  }
  check_freed_memory(rank, run);
}

// The layer after the low one is frozen, so that gradients stay small however often the optimizer steps.
RANKED_TEST_CASE("replicate/low_precision_steps", clauses("REP-19"), ranks(1, 2, 4), each("dtype", "bf16", "f16"),
                 each("optimizer", "sgd", "momentum"),
                 needs(Feature::timeline, Feature::module_groups, ReplicateFeature::parameter_dtypes)) {
  skip_unless_sums_have_an_order(rank);
  Scenario scenario = exact_net(true, training());
  replicate_plan(scenario.plan).parameter_dtypes["0"] = low_dtype(rank);
  scenario.model.root.children.back().frozen = true;
  scenario.plan.optimizer.rate = low_dtype(rank) == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
  const bool keeps_momentum = rank.param("optimizer") == "momentum";
  if (keeps_momentum) scenario.plan.optimizer.momentum = 0.5;
  require_rounding(scenario, rank.world().size());
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  CHECK(run.peak(MemoryClass::optimizer_state).bytes == (keeps_momentum ? bytes_of_gradients(scenario) : 0));
}

// Gradients of three iterations are added up in the low precision.
RANKED_TEST_CASE("replicate/low_precision_no_sync", clauses("REP-4", "REP-6", "REP-19"), ranks(1, 2, 4),
                 each("dtype", "bf16", "f16"),
                 needs(Feature::timeline, Feature::gradient_accumulation, ReplicateFeature::parameter_dtypes)) {
  skip_unless_sums_have_an_order(rank);
  Scenario scenario = with_large_inputs(low_net(low_dtype(rank), {}));
  scenario.script.segments.clear();
  for (int round = 0; round < 3; ++round) {
    scenario.script.segments.push_back(
        {.iterations = 2, .body = {sync(false), {ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}});
    std::vector<Action> synced = gradients_only();
    synced.insert(synced.begin(), sync(true));
    scenario.script.segments.push_back({.body = std::move(synced)});
  }
  require_rounding_of_sums(rank, scenario);
  scenario = with_last_step(std::move(scenario));
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  std::vector<Iteration> all = run.iterations();
  all.pop_back();  // that of the step
  for (const Iteration& iteration : all) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-6");
    const bool reduces = iteration.index() % 3 == 2 && rank.world().size() > 1;
    CHECK(calls_in_backward(iteration, 1).empty() == !reduces);
  }
  check_sound(rank, run);
}

// Each call of the hook gets whole gradients of one dtype.
RANKED_TEST_CASE("replicate/low_precision_hook", clauses("REP-4", "REP-9", "REP-19"), ranks(1, 2, 4),
                 each("dtype", "bf16", "f16"), each("hook", "plain", "sum"),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes, ReplicateFeature::gradient_hooks)) {
  skip_unless_sums_have_an_order(rank);
  Scenario scenario = with_large_inputs(low_net(low_dtype(rank), gradients_only()));
  scenario.script.keep_tensors = true;
  scenario =
      with_last_step(with_hook(std::move(scenario), rank.param("hook") == "sum" ? HookKind::sum : HookKind::plain));
  require_rounding(scenario, rank.world().size());
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_no_race(rank, run);
  for (const Iteration& iteration : run.iterations()) {
    if (iteration.index() == 0) continue;  // that registers the hook
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-9");
    std::vector<NamedGradient> left = own_gradients(scenario, rank.index(), iteration.index());
    for (const Callback* call : run.callbacks({.kind = CallbackKind::gradient_hook, .iteration = iteration.index()})) {
      std::vector<NamedGradient> of_dtype = left;
      std::erase_if(of_dtype, [&](const NamedGradient& gradient) {
        return replicate_plan(scenario.plan).dtype_of(gradient.name) != call->tensors.at(0).dtype();
      });
      {
        const auto judged_dtype = rank.under("REP-19");
        const std::size_t before = of_dtype.size();
        take_parameters(call->tensors[0], of_dtype);
        CHECK(of_dtype.size() < before);
      }
      take_parameters(call->tensors[0], left);
    }
    CHECK(left.empty());
  }
}

// A bucket that has the hook's dtype needs no copy.
RANKED_TEST_CASE("replicate/low_precision_compressed", clauses("REP-4", "REP-10", "REP-14", "REP-19"), ranks(1, 2, 4),
                 each("dtype", "bf16", "f16"), each("hook", "bf16", "f16"), each("step", "eager", "compiled"),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes, ReplicateFeature::compressing_hooks),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  skip_unless_sums_have_an_order(rank);
  const DType hook = rank.param("hook") == "f16" ? DType::f16 : DType::bf16;
  Scenario scenario = with_large_inputs(low_net(low_dtype(rank), gradients_only()));
  scenario.model.loss.divisor = 16;  // gradients of f16 stay below its largest number
  const bool compiles = rank.param("step") == "compiled";
  if (compiles) replicate_plan(scenario.plan).compile.emplace();
  scenario = with_last_step(
      with_hook(std::move(scenario), hook == DType::f16 ? HookKind::fp16_compress : HookKind::bf16_compress));
  require_rounding(scenario, rank.world().size());
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_no_race(rank, run);
  for (const Iteration& iteration : run.iterations()) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-10");
    for (const fact::Collective& call : bucket_calls(iteration)) CHECK(call.dtype == hook);
    if (iteration.index() > 0 && rank.world().size() > 1) CHECK_FALSE(bucket_calls(iteration).empty());
  }
  if (!compiles) check_memory(rank, run);
}

// A bucket counts the bytes of its own dtype alone.
RANKED_TEST_CASE("replicate/dtype_buckets", clauses("REP-20"), ranks(2, 4), each("set", 0, 1, 2, 3, 4, 5),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes), tags("reference")) {
  Scenario scenario = random_low_layers(rank);
  scenario.script.keep_tensors = true;
  const Run run = play_accepted(rank, scenario);
  check_bucket_sizes(rank, run);
  check_bucket_members(rank, run);
  check_reduced_once(rank, run);
  check_no_race(rank, run);
}

RANKED_TEST_CASE("replicate/dtype_buckets_of_construction", clauses("REP-22"), ranks(2, 3), each("set", 0, 1, 2, 3),
                 needs(Feature::timeline, ReplicateFeature::unused_parameters, ReplicateFeature::parameter_dtypes),
                 tags("reference")) {
  Scenario scenario = random_low_layers(rank);
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.unused_parameters = true;
  // PyTorch drops the limit of the first bucket at construction if it is not the lower one.
  if (plan.first_bucket_bytes > plan.bucket_bytes) std::swap(plan.first_bucket_bytes, plan.bucket_bytes);
  const Run run = play_accepted(rank, scenario);
  check_bucket_sizes(rank, run);
  check_reduced_once(rank, run);
}

RANKED_TEST_CASE("replicate/low_precision_compiled", clauses("REP-3", "REP-4", "REP-19", "REP-40", "REP-41"),
                 ranks(1, 2, 4), each("dtype", "bf16", "f16"), each("fusion", "concat", "coalesce", "none"),
                 each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes, ReplicateFeature::compiled_step)) {
  skip_unless_sums_have_an_order(rank);
  Scenario scenario = with_last_step(with_large_inputs(low_net(low_dtype(rank), gradients_only())));
  replicate_plan(scenario.plan).compile = compile_plan(rank);
  require_rounding(scenario, rank.world().size());
  const Run run = play_accepted(rank, scenario);
  check_equal(rank, run, play_accepted(rank, eager(scenario)));
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_ran_as_planned(rank, run);
  check_no_race(rank, run);
  check_same_order(rank, run);
  check_freed_memory(rank, run);
}

RANKED_TEST_CASE("replicate/dtype_plan", clauses("REP-42"), ranks(2, 4), each("fusion", "concat", "coalesce"),
                 each("region", "forward_backward", "backward"), each("set", 0, 1, 2, 3),
                 needs(Feature::timeline, ReplicateFeature::parameter_dtypes, ReplicateFeature::compiled_step),
                 tags("reference")) {
  const Scenario scenario = random_low_layers(rank, compile_plan(rank));
  const Run run = play_accepted(rank, scenario);
  REQUIRE(run.compiled_steps().size() == iterations);
  for (const CompiledStep& step : run.compiled_steps()) {
    CAPTURE(step.iteration);
    CHECK(reduction_plan(backward_of(step)) == expected_plan(scenario, rank.world().size(), false));
  }
  check_ran_as_planned(rank, run);
  check_no_race(rank, run);
}

}  // namespace shardproof::replicate
