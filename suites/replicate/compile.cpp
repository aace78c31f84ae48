// Does a compiled step compute what an eager step computes, and does it run what it planned?
#include <shardproof.hpp>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "suites/checks/comparison.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/times.hpp"
#include "suites/replicate/plans.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;
using namespace std::chrono_literals;

namespace {

std::string seed_test(const std::string& compiled) {
  return "test_replicate_with_compiler.py::test_compile_" + compiled;
}

// Registers a compressing hook in an iteration before all others.
void compress(Scenario& scenario, const std::string& hook) {
  const auto kind = hook == "fp16" ? HookKind::fp16_compress : HookKind::bf16_compress;
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {.body = {{.kind = ActionKind::register_hook, .hook = Hook{.kind = kind}}}});
}

// Without sync in the first backward of each iteration, if `sync` is false.
Scenario compiled_net(Rank& rank) {
  std::vector<Action> body = training();
  const bool syncs = rank.param<bool>("sync");
  if (!syncs)
    body.insert(body.begin(),
                {sync(false), {ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}, sync(true)});
  Scenario scenario = exact_net(true, std::move(body));
  replicate_plan(scenario.plan).compile = compile_plan(rank);
  const std::string& hook = rank.param("hook");
  if (hook != "none") {
    // Gradients are fractions of large integers: in f32 they are exact, in the low precisions they are not.
    scenario.script.given.clear();
    scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 4096};
    compress(scenario, hook);
  }
  return scenario;
}

// Each parameter has one value in the forward, each gradient has one in the backward. Nodes write computed values and
// gradients alone, a computed one once, and there are no other values than those that nodes use. A backward computes
// nothing but gradients and values that nodes read.
void check_values(const Model& model, const StepGraph& graph) {
  const bool is_forward = graph.pass == StepPass::forward;
  std::vector<std::string> found, expected;
  for (const StepValue& value : graph.values) {
    if (value.kind == (is_forward ? StepValueKind::parameter : StepValueKind::gradient)) found.push_back(value.name);
  }
  for (const ParameterShape& parameter : parameters(model)) expected.push_back(parameter.name);
  for (const StepValue& value : graph.values) {
    CAPTURE(value.name);
    if (value.kind == StepValueKind::parameter) CHECK(std::ranges::find(expected, value.name) != expected.end());
  }
  std::ranges::sort(found);
  std::ranges::sort(expected);
  CHECK(found == expected);
  std::vector<bool> is_used(graph.values.size()), is_written = is_used, is_read = is_used;
  for (const StepNode& node : graph.nodes) {
    for (const std::size_t input : node.inputs) is_used[input] = is_read[input] = true;
    for (const std::size_t output : node.outputs) {
      CAPTURE(node.operation, node.label);
      is_used[output] = true;
      if (graph.values[output].kind == StepValueKind::computed) CHECK_FALSE(is_written[output]);
      is_written[output] = true;
      CHECK((graph.values[output].kind == StepValueKind::computed ||
             graph.values[output].kind == StepValueKind::gradient));
    }
  }
  CHECK(std::ranges::count(is_used, false) == 0);
  for (std::size_t value = 0; value < graph.values.size() && !is_forward; ++value) {
    CAPTURE(graph.values[value].name);
    CHECK((is_read[value] || graph.values[value].kind == StepValueKind::gradient));
  }
}

}  // namespace

RANKED_TEST_CASE(
    "replicate/compile", clauses("REP-3", "REP-4", "REP-40", "REP-41"), ranks(1, 2, 4),
    each("hook", "none", "bf16", "fp16"), each("region", "forward_backward", "backward"),
    each("fusion", "concat", "coalesce", "none"), each("sync", true, false),
    needs(Feature::timeline, ReplicateFeature::compiled_step), needs_if("sync", false, Feature::gradient_accumulation),
    needs_if("hook", "bf16", ReplicateFeature::compressing_hooks),
    needs_if("hook", "fp16", ReplicateFeature::compressing_hooks),
    seed_where(seed_test("cpu"), each("hook", "none"), each("sync", true), each("region", "forward_backward")),
    seed_where(seed_test("cpu_no_sync"), each("hook", "none"), each("sync", false), each("region", "forward_backward")),
    seed_where(seed_test("gpu"), each("hook", "none"), each("sync", true), each("region", "forward_backward")),
    seed_where(seed_test("bf16"), each("hook", "bf16"), each("sync", true), each("region", "forward_backward")),
    seed_where(seed_test("fp16"), each("hook", "fp16"), each("sync", true), each("region", "forward_backward")),
    seed_where(seed_test("backward_only"), each("hook", "none"), each("sync", true), each("region", "backward"))) {
  const bool compresses = rank.param("hook") != "none", syncs = rank.param<bool>("sync");
  if (compresses) skip_unless_sums_have_an_order(rank);
  const Scenario scenario = compiled_net(rank);
  const Run run = play_accepted(rank, scenario);
  check_equal(rank, run, play_accepted(rank, eager(scenario)));
  if (!compresses) check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_ran_as_planned(rank, run);
  check_no_race(rank, run);
  check_same_order(rank, run);
  check_freed_memory(rank, run);
  // Whether ranks communicated does not show in values: averages are linear.
  const auto judged = rank.under("REP-41");
  const bool alone = rank.world().size() == 1;
  for (const Iteration& iteration : run.iterations()) {
    if (compresses && iteration.index() == 0) continue;  // that registers the hook
    CAPTURE(iteration.index());
    const std::size_t unsynced = syncs ? 0 : calls_in_backward(iteration, 1).size();
    CHECK(unsynced == 0);
    std::uint64_t reduced = 0;
    for (const fact::Collective& call : calls_in_backward(iteration, syncs ? 1 : 2)) {
      CHECK(call.dtype == (!compresses ? DType::f32 : rank.param("hook") == "fp16" ? DType::f16 : DType::bf16));
      reduced += call.in_count;
    }
    CHECK(reduced == (alone ? 0 : trainable_elements(scenario.model)));
  }
}

// The seed's optimizer. Its state depends on each gradient, so equal bits need equal gradients in each step.
RANKED_TEST_CASE("replicate/compiled_adam", clauses("REP-40"), ranks(2, 4),
                 each("region", "forward_backward", "backward"), needs(ReplicateFeature::compiled_step)) {
  Scenario scenario = exact_net(true, training());
  scenario.model.init_divisor = 8;
  scenario.script.input_divisor = 8;
  scenario.script.given.clear();
  scenario.plan.optimizer = {.kind = OptimizerKind::adam, .rate = 1.0 / 64};
  replicate_plan(scenario.plan).compile.emplace().region = region_by(rank);
  const Run run = play_accepted(rank, scenario);
  check_equal(rank, run, play_accepted(rank, eager(scenario)));
  check_training(rank, run, oracles::Arithmetic::f64, {.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-3},
                 Moves::some_parameter);
}

// The four layers of the seed with the limits of PyTorch: [w4], [b4 w3 b3 w2] and [b2 w1 b1]. In the second pass
// gradients exist.
RANKED_TEST_CASE("replicate/bucketing", clauses("REP-42"), ranks(2), each("fusion", "concat", "coalesce"),
                 each("pass", "first", "second"), needs(Feature::timeline, ReplicateFeature::compiled_step),
                 tags("reference"),
                 seed_where("test_replicate_with_compiler.py::test_bucketing_coalesced_op", each("fusion", "coalesce")),
                 seed_where("test_replicate_with_compiler.py::test_bucketing_concat_op", each("fusion", "concat"))) {
  const bool existed = rank.param("pass") == "second";
  Scenario scenario = four_layers(2000);
  replicate_plan(scenario.plan).compile = fused_by(rank);
  scenario.script.segments.front() = {.iterations = 3, .body = {{ActionKind::forward}, {ActionKind::backward}}};
  if (!existed) scenario.script.segments.front().body.push_back({ActionKind::zero_grad});
  const Run run = play_accepted(rank, scenario);
  REQUIRE(run.compiled_steps().size() == 3);
  for (const CompiledStep& step : run.compiled_steps()) {
    CAPTURE(step.iteration);
    const StepGraph& backward = backward_of(step);
    const PlanLines planned = reduction_plan(backward);
    CHECK(planned == expected_plan(scenario, 2, existed && step.iteration > 0));
    std::vector<std::int64_t> elements;
    for (const StepNode& node : backward.nodes) {
      if (node.kind != StepNodeKind::all_reduce) continue;
      elements.push_back(0);
      for (const std::size_t input : node.inputs) elements.back() += numel(backward.values[input].shape);
    }
    CHECK(elements == std::vector<std::int64_t>{4'000'000, 8'004'000, 4'004'000});
  }
  check_ran_as_planned(rank, run);
}

// The same layers with their values, which take some hundred megabytes.
RANKED_TEST_CASE("replicate/bucketing_values", clauses("REP-4", "REP-40", "REP-41"), ranks(2),
                 each("fusion", "concat", "coalesce"), needs(Feature::timeline, ReplicateFeature::compiled_step),
                 tags("large"), timeout(120s)) {
  Scenario scenario = four_layers(2000);
  replicate_plan(scenario.plan).compile = fused_by(rank);
  // Ones in few places, so that all sums are exact.
  scenario.script.given = {{std::vector<double>(2000), std::vector<double>(2000)}};
  for (int each = 0; each < 2; ++each)
    scenario.script.given[0][static_cast<std::size_t>(each)][static_cast<std::size_t>(7 * each + 3)] = 1;
  scenario.script.segments = {{.iterations = 2, .body = {{ActionKind::forward}, {ActionKind::backward}}},
                              {.body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::capture},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  const Run run = play_accepted(rank, scenario);
  check_equal(rank, run, play_accepted(rank, eager(scenario)));
  check_ran_as_planned(rank, run);
  check_no_race(rank, run);
  const std::vector<CapturedParameter>&before = run.captures().front().parameters,
        &after = run.captures().back().parameters;
  for (std::size_t p = 0; p < before.size(); ++p) {
    CAPTURE(before[p].name);
    CHECK(before[p].gradient.defined());
    CHECK_FALSE(before[p].shard == after[p].shard);
  }
}

// Any layers and limits.
RANKED_TEST_CASE("replicate/compiled_plan", clauses("REP-42"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("fusion", "concat", "coalesce", "none"), each("region", "forward_backward", "backward"),
                 each("set", 0, 1, 2, 3), needs(Feature::timeline, ReplicateFeature::compiled_step),
                 tags("reference")) {
  std::mt19937_64 random(rank.seed());
  Scenario scenario = random_layers(random);
  replicate_plan(scenario.plan).compile = compile_plan(rank);
  draw_limits(scenario, compiled_ready_order(scenario), rank.param<int>("set") % 2 == 0, random);
  // The first backward of an iteration makes gradients, the second one adds to them.
  scenario.script.segments = {{.iterations = 3,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::zero_grad}}}};
  const Run run = play_accepted(rank, scenario);
  REQUIRE(run.compiled_steps().size() == 6);
  for (const CompiledStep& step : run.compiled_steps()) {
    CAPTURE(step.iteration, step.backward);
    CHECK(reduction_plan(backward_of(step)) == expected_plan(run.scenario(), rank.world().size(), step.backward == 2));
    for (const StepGraph& graph : *step.graphs) check_values(run.scenario().model, graph);
    CHECK(step.graphs->size() == (replicate_plan(scenario.plan).compile->region == CompiledRegion::backward ? 1U : 2U));
  }
  check_ran_as_planned(rank, run);
  check_no_race(rank, run);
}

// A backward without sync has no reductions, and settles no order for later ones.
RANKED_TEST_CASE("replicate/compiled_plan_after_no_sync", clauses("REP-42"), ranks(2),
                 each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, Feature::gradient_accumulation, ReplicateFeature::compiled_step),
                 tags("reference")) {
  Scenario scenario = four_layers(3);
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = plan.bucket_bytes = 48;  // of a layer
  plan.compile.emplace().region = region_by(rank);
  scenario.script.segments.insert(scenario.script.segments.begin(), without_sync(scenario.script.segments.front()));
  const Run run = play_accepted(rank, scenario);
  for (const CompiledStep& step : run.compiled_steps()) {
    CAPTURE(step.iteration);
    CHECK(reduction_plan(backward_of(step)) == (step.iteration == 0 ? PlanLines() : expected_plan(scenario, 2, false)));
  }
  check_ran_as_planned(rank, run);
}

// The sum of the contributions of two uses is a separate value.
RANKED_TEST_CASE("replicate/plan_of_shared_parameters", clauses("REP-42"), ranks(1, 2),
                 each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, Feature::shared_parameters, Feature::module_groups,
                       ReplicateFeature::compiled_step),
                 tags("reference")) {
  Scenario scenario = four_layers(3);
  scenario.model.root.children.push_back({.name = "again", .kind = ModuleKind::use, .target = "fc2"});
  replicate_plan(scenario.plan).compile.emplace().region = region_by(rank);
  const Run run = play_accepted(rank, scenario);
  for (const CompiledStep& step : run.compiled_steps()) {
    CAPTURE(step.iteration);
    for (const StepGraph& graph : *step.graphs) check_values(scenario.model, graph);
  }
  check_ran_as_planned(rank, run);
}

// If no gradient exists, the result of a reduction becomes the gradient, in the memory of the reduction. Only `concat`
// needs more memory: its flat tensor, in addition to the gradients that are copied to it. Each layer has a bucket. The
// first backward is without sync and has its own plan, so the plans that reduce come later.
RANKED_TEST_CASE("replicate/compiled_memory", clauses("REP-14"), ranks(1, 2, 3),
                 each("fusion", "concat", "coalesce", "none"), each("region", "forward_backward", "backward"),
                 each("pass", "first", "second"),
                 needs(Feature::timeline, Feature::gradient_accumulation, ReplicateFeature::compiled_step)) {
  const bool existed = rank.param("pass") == "second";
  Scenario scenario = exact_net(true, training());
  if (existed) scenario.script.segments.front().body.back().to_zero = true;
  scenario.script.segments.insert(
      scenario.script.segments.begin(),
      {.body = {sync(false), {ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}, sync(true)}});
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = 72 + 12;
  plan.bucket_bytes = 96 + 24;
  plan.compile = compile_plan(rank);
  const Run run = play_accepted(rank, scenario);
  const std::uint64_t all = 4 * trainable_elements(scenario.model), largest_bucket = 96 + 24;
  const std::uint64_t flat = rank.param("fusion") == to_string(BucketFusion::concat) ? largest_bucket : 0;
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const bool copies = existed && iteration.index() > 1;
    const std::uint64_t reductions = iteration.peak(MemoryClass::reduce_input).bytes,
                        gradients = iteration.peak(MemoryClass::gradient).bytes;
    CHECK(reductions + gradients <= all + flat + (copies ? all : 0));
    if (copies) CHECK(gradients == all);
    CHECK(iteration.live_after(MemoryClass::gradient, ActionKind::backward).bytes == all);
    CHECK(iteration.live_after(MemoryClass::reduce_input, ActionKind::backward).bytes == 0);
  }
  check_memory_classes(rank, run);
  check_freed_memory(rank, run);
}

// Before the backward that reduces, one layer of two has a gradient. Its result is copied. The other layer's result
// becomes its gradient without a copy.
RANKED_TEST_CASE("replicate/compiled_memory_of_some", clauses("REP-1", "REP-14"), ranks(1, 2, 3),
                 each("existing", "a", "b"), each("fusion", "concat", "coalesce"),
                 needs(Feature::timeline, Feature::module_groups, Feature::gradient_accumulation,
                       ReplicateFeature::compiled_step)) {
  Scenario scenario = exact_net(false, {});
  const auto layer = [](const char* name) {
    return Module{.name = name, .kind = ModuleKind::linear, .in_features = 4, .out_features = 3};
  };
  scenario.model.root.children = {{.name = "way", .kind = ModuleKind::choice, .children = {layer("a"), layer("b")}}};
  replicate_plan(scenario.plan).compile = fused_by(rank);
  const auto forward = [](const std::string& way) {
    return Action{.kind = ActionKind::forward, .paths = {{"way", way}}};
  };
  scenario.script.segments = {{.iterations = 3,
                               .body = {sync(false),
                                        forward(rank.param("existing")),
                                        {ActionKind::backward},
                                        sync(true),
                                        forward("a"),
                                        forward("b"),
                                        {ActionKind::backward},
                                        {ActionKind::capture},
                                        {ActionKind::step},
                                        {ActionKind::zero_grad}}}};
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  const std::uint64_t all = 4 * trainable_elements(scenario.model);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-14");
    const std::string end = mark(iteration.index(), ActionKind::backward, true, 2);
    CHECK(trace::at(run.trace(), MemoryClass::gradient, end).bytes <= all + all / 2);
    CHECK(trace::at(run.trace(), MemoryClass::reduce_input, end).bytes == 0);
  }
  check_no_race(rank, run);
  check_freed_memory(rank, run);
}

// The backward hides all-reduces, from the first iteration on. A bucket has two gradients, and one call reduces both.
RANKED_TEST_CASE("replicate/compiled_overlap", clauses("REP-4", "REP-41", "REP-43"), ranks(1, 2, 3, 4),
                 each("region", "forward_backward", "backward"), each("fusion", "concat", "coalesce"),
                 needs(Feature::timeline, ReplicateFeature::compiled_step)) {
  Scenario scenario = sleeping_layers({4, {.forward = 25'000'000, .backward = 50'000'000}}, 10'000'000);
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = plan.bucket_bytes = 80;
  plan.compile = compile_plan(rank);
  const std::chrono::nanoseconds all_reduce = rank.world().size() > 1 ? 10ms : 0ms;
  const Run run = play_accepted(rank, scenario);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-43");
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_least, 300ms + all_reduce);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_most,
               300ms + all_reduce + 2ms);
  }
  check_ran_as_planned(rank, run);
  check_no_race(rank, run);
}

// With a compressing hook, a gradient is cast before its reduction, and its mean is cast back. Here a cast costs 2 ms
// if it packs gradients. So the second all-reduce starts 2 ms after the first one: both gradients are of one layer.
RANKED_TEST_CASE("replicate/compiled_casts", clauses("REP-21", "REP-42"), ranks(2), each("hook", "fp16", "bf16"),
                 each("region", "forward_backward", "backward"),
                 needs(Feature::timeline, ReplicateFeature::compiled_step, ReplicateFeature::compressing_hooks),
                 tags("reference")) {
  Scenario scenario = sleeping_layers({3, {.forward = 25'000'000, .backward = 50'000'000}}, 0);
  scenario.costs.work[WorkKind::reduce_copy_in] = 2'000'000;
  replicate_plan(scenario.plan).compile = {.region = region_by(rank), .fusion = BucketFusion::none};
  compress(scenario, rank.param("hook"));
  const auto gradients = std::ssize(parameters(scenario.model));
  const Run run = play_accepted(rank, scenario);
  std::vector<Iteration> played = steady_iterations(run);
  played.erase(played.begin());  // that of the registration
  for (const Iteration& iteration : played) {
    CAPTURE(iteration.index());
    const std::vector<fact::Collective> calls = bucket_calls(iteration);
    {
      const auto judged = rank.under("REP-42");
      REQUIRE(std::ssize(calls) == gradients);
    }
    const auto judged = rank.under("REP-21");
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly,
               225ms + gradients * 2ms);
    CHECK(std::chrono::nanoseconds(calls[1].start - calls[0].start) == 2ms);
  }
}

// Layers of one kind and two shapes. Iterations alternate their order.
RANKED_TEST_CASE("replicate/compiled_shapes", clauses("REP-4", "REP-40", "REP-41"), ranks(1, 2, 3),
                 each("fusion", "concat", "coalesce"),
                 needs(Feature::timeline, Feature::module_groups, ReplicateFeature::compiled_step)) {
  Scenario scenario = exact_net(true, {});
  const auto way = [](const std::string& name, std::int64_t between) {
    return Module{.name = name,
                  .children = {{.name = "0", .kind = ModuleKind::linear, .in_features = 4, .out_features = between},
                               {.name = "1", .kind = ModuleKind::linear, .in_features = between, .out_features = 3}}};
  };
  scenario.model.root.children = {
      {.name = "way", .kind = ModuleKind::choice, .children = {way("narrow", 2), way("wide", 4)}}};
  scenario.plan.optimizer.rate = 1.0 / 4;
  replicate_plan(scenario.plan).compile = fused_by(rank);
  scenario.script.segments.clear();
  const auto forward = [](const char* name) { return Action{.kind = ActionKind::forward, .paths = {{"way", name}}}; };
  for (const bool narrow_first : {true, false, true})
    scenario.script.segments.push_back({.body = {forward(narrow_first ? "narrow" : "wide"),
                                                 forward(narrow_first ? "wide" : "narrow"),
                                                 {ActionKind::backward},
                                                 {ActionKind::capture},
                                                 {ActionKind::step},
                                                 {ActionKind::capture},
                                                 {ActionKind::zero_grad}}});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_ran_as_planned(rank, run);
  check_no_race(rank, run);
}

}  // namespace shardproof::replicate
