// The compiled step of the engine `replicate`: its plan, what it executes, and the eager step that it must equal.
#include "fixtures/engines/replicate/compile/compiled_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fixtures/engines/common/trainer.hpp"
#include "fixtures/engines/reference.hpp"
#include "harness/device/sim/sim_platform.hpp"
#include "harness/trace/races.hpp"
#include "tests/engines/networks.hpp"
#include "tests/engines/serial_comparison.hpp"
#include "tests/engines/step_graphs.hpp"
#include "tests/engines/thread_ranks.hpp"

namespace shardproof::engines {
namespace {

using shardproof::testing::in_words;
using shardproof::testing::played;
using Words = std::vector<std::string>;
using Plans = std::vector<std::vector<StepGraph>>;  // by backward

Plans plans(const Run& run) {
  Plans all;
  for (const shardproof::CompiledStep& step : run.compiled_steps()) all.push_back(*step.graphs);
  return all;
}

Action action(ActionKind kind) { return {.kind = kind}; }
Action sync(bool on) { return {.kind = ActionKind::set_requires_gradient_sync, .value = on}; }
Action compressing(HookKind kind) { return {.kind = ActionKind::register_hook, .hook = Hook{.kind = kind}}; }

const std::vector<Action> iteration{action(ActionKind::forward), action(ActionKind::backward),
                                    action(ActionKind::capture), action(ActionKind::step),
                                    action(ActionKind::zero_grad)};

// In the second half, gradients of the first half exist.
const std::vector<Action> two_halves{action(ActionKind::forward),  action(ActionKind::backward),
                                     action(ActionKind::capture),  action(ActionKind::forward),
                                     action(ActionKind::backward), action(ActionKind::capture),
                                     action(ActionKind::step),     action(ActionKind::zero_grad)};

const std::vector<Action> without_sync{sync(false),
                                       action(ActionKind::forward),
                                       action(ActionKind::backward),
                                       action(ActionKind::capture),
                                       sync(true),
                                       action(ActionKind::forward),
                                       action(ActionKind::backward),
                                       action(ActionKind::capture),
                                       action(ActionKind::step),
                                       action(ActionKind::zero_grad)};

Scenario scenario_of(std::vector<Module> children, std::vector<Action> body, int iterations = 3) {
  Scenario scenario;
  scenario.model = model_of(std::move(children), {.kind = LossKind::dot});
  scenario.model.init_divisor = scenario.script.input_divisor = 4;
  scenario.plan.optimizer.rate = 0.015625;
  scenario.script.input = {2, 4};
  scenario.script.segments = {{.iterations = iterations, .body = std::move(body)}};
  return scenario;
}

// The weight of one layer, 64 bytes, fills the first bucket; 160 bytes with two biases and another weight fill the
// second.
Scenario four_linears(const CompilePlan& how, std::vector<Action> body, int iterations = 3) {
  std::vector<Module> layers;
  for (const char* const name : {"fc1", "fc2", "fc3", "fc4"}) {
    Module layer = linear_module(name, 4, 4);
    layer.forward_sleep = 25'000'000;
    layer.backward_sleep = 50'000'000;
    layers.push_back(layer);
  }
  Scenario scenario = scenario_of(std::move(layers), std::move(body), iterations);
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = 64;
  plan.bucket_bytes = 128;
  plan.compile = how;
  scenario.costs.collectives[CollectiveKind::all_reduce] = {.fixed = 10'000'000};
  return scenario;
}

void expect_sound(const Run& run, int rank) {
  CAPTURE(rank);
  for (const trace::Race& race : run.races()) FAIL_CHECK(trace::describe(race));
  CHECK(run.left_alive() == 0);
}

// `bucket 0: 16 f32` for each all-reduce of a backward.
std::string reduction_in_words(const std::string& tag, std::uint64_t count, DType dtype, ReduceOp op,
                               const std::vector<int>& group) {
  return fmt::format("{}: {} {} {} of {}", tag, count, to_string(dtype), to_string(op), fmt::join(group, ","));
}

Words planned_reductions(const StepGraph& graph) {
  Words words;
  for (const StepNode& node : graph.nodes) {
    if (node.kind != StepNodeKind::all_reduce) continue;
    for (const std::size_t operand : node.inputs) {
      const StepValue& value = graph.values[operand];
      words.push_back(reduction_in_words(node.label, static_cast<std::uint64_t>(numel(value.shape)), value.dtype,
                                         node.op, node.group));
    }
  }
  return words;
}

Words executed_reductions(const Iteration& of) {
  Words words;
  for (const fact::Collective& each : of.collectives(ActionKind::backward)) {
    if (each.tag == ready_order_tag) continue;
    CHECK(each.kind == CollectiveKind::all_reduce);
    words.push_back(reduction_in_words(each.tag, each.in_count, each.dtype, each.op, each.group));
  }
  return words;
}

// The steps of the compute stream in a backward. A wait for an all-reduce is one of them.
Words planned_work(const StepGraph& graph) {
  Words words;
  for (const StepNode& node : graph.nodes) {
    if (node.kind == StepNodeKind::wait) words.emplace_back("wait");
    if (node.kind == StepNodeKind::copy || (node.kind == StepNodeKind::compute && node.operation != split_operation))
      words.push_back(node.label);
  }
  return words;
}

Words executed_work(const Iteration& of) {
  Words words;
  bool is_inside = false;
  for (const Fact& fact : of.facts()) {
    if (const auto* const mark = std::get_if<fact::Mark>(&fact)) {
      if (mark->text == shardproof::mark(of.index(), ActionKind::backward)) is_inside = true;
      if (mark->text == shardproof::mark(of.index(), ActionKind::backward, true)) is_inside = false;
    }
    if (!is_inside) continue;
    if (const auto* const work = std::get_if<fact::Work>(&fact);
        work != nullptr && work->stream == 0 && work->label != ready_order_tag)
      words.push_back(work->label);
    if (const auto* const wait = std::get_if<fact::EventWaited>(&fact); wait != nullptr && wait->stream == 0)
      words.emplace_back("wait");
  }
  return words;
}

TEST_CASE("only a compiled forward puts a weight before its bias") {
  const auto started_with = [](CompiledRegion region) {
    CompilePlan how{.region = region, .fusion = BucketFusion::none};
    return planned_reductions(plans(played(four_linears(how, two_halves, 1), 2).front()).front().back()).front();
  };
  CHECK(started_with(CompiledRegion::forward_backward) == "bucket 0: 16 f32 sum of 0,1");
  CHECK(started_with(CompiledRegion::backward) == "bucket 0: 4 f32 sum of 0,1");
}

TEST_CASE("the plan of four equal layers has three buckets, a weight before its bias") {
  const std::vector<Run> ranks = played(four_linears({}, two_halves, 2), 2);
  const Words forward{"forward fc1: input, fc1.weight, fc1.bias -> fc1",
                      "forward fc2: fc1, fc2.weight, fc2.bias -> fc2",
                      "forward fc3: fc2, fc3.weight, fc3.bias -> fc3",
                      "forward fc4: fc3, fc4.weight, fc4.bias -> fc4",
                      "loss dot row:  -> dot row",
                      "loss loss: fc4, dot row -> loss"};
  for (const Run& rank : ranks) {
    expect_sound(rank, rank.trace().rank);
    REQUIRE(plans(rank).size() == 4);
    for (const std::vector<StepGraph>& plan : plans(rank)) {
      REQUIRE(plan.size() == 2);
      CHECK(plan[0].pass == StepPass::forward);
      CHECK(plan[1].pass == StepPass::backward);
      CHECK(in_words(plan[0]) == forward);
    }
    CHECK(in_words(plans(rank)[0][1]) ==
          Words{"loss dot row:  -> dot row", "loss loss gradient: fc4, dot row -> loss gradient",
                "backward fc4: loss gradient, fc4.weight, fc3 -> fc4 input gradient, fc4.weight, fc4.bias",
                "divide fc4.weight: fc4.weight -> divide fc4.weight",
                "all_reduce bucket 0: divide fc4.weight -> all_reduce fc4.weight",
                "backward fc3: fc4 input gradient, fc3.weight, fc2 -> fc3 input gradient, fc3.weight, fc3.bias",
                "backward fc2: fc3 input gradient, fc2.weight, fc1 -> fc2 input gradient, fc2.weight, fc2.bias",
                "concat bucket 1: fc4.bias, fc3.weight, fc3.bias, fc2.weight -> concat bucket 1",
                "divide bucket 1: concat bucket 1 -> divide bucket 1",
                "all_reduce bucket 1: divide bucket 1 -> all_reduce bucket 1",
                "backward fc1: fc2 input gradient, input -> fc1.weight, fc1.bias",
                "concat bucket 2: fc2.bias, fc1.weight, fc1.bias -> concat bucket 2",
                "divide bucket 2: concat bucket 2 -> divide bucket 2",
                "all_reduce bucket 2: divide bucket 2 -> all_reduce bucket 2",
                "wait bucket 0: all_reduce fc4.weight -> fc4.weight",
                "wait bucket 1: all_reduce bucket 1 -> wait bucket 1",
                "split bucket 1: wait bucket 1 -> fc4.bias, fc3.weight, fc3.bias, fc2.weight",
                "wait bucket 2: all_reduce bucket 2 -> wait bucket 2",
                "split bucket 2: wait bucket 2 -> fc2.bias, fc1.weight, fc1.bias"});
    const Words second = in_words(plans(rank)[1][1]);
    REQUIRE(second.size() == 27);
    CHECK(second[2] ==
          "backward fc4: loss gradient, fc4.weight, fc3, fc4.weight, fc4.bias -> fc4 input gradient, fc4.weight, "
          "fc4.bias");
    CHECK(Words(second.end() - 13, second.end()) ==
          Words{"wait bucket 0: all_reduce fc4.weight -> wait fc4.weight",
                "copy fc4.weight: wait fc4.weight -> fc4.weight", "wait bucket 1: all_reduce bucket 1 -> wait bucket 1",
                "split bucket 1: wait bucket 1 -> wait fc4.bias, wait fc3.weight, wait fc3.bias, wait fc2.weight",
                "copy fc4.bias: wait fc4.bias -> fc4.bias", "copy fc3.weight: wait fc3.weight -> fc3.weight",
                "copy fc3.bias: wait fc3.bias -> fc3.bias", "copy fc2.weight: wait fc2.weight -> fc2.weight",
                "wait bucket 2: all_reduce bucket 2 -> wait bucket 2",
                "split bucket 2: wait bucket 2 -> wait fc2.bias, wait fc1.weight, wait fc1.bias",
                "copy fc2.bias: wait fc2.bias -> fc2.bias", "copy fc1.weight: wait fc1.weight -> fc1.weight",
                "copy fc1.bias: wait fc1.bias -> fc1.bias"});
    // The gradients of each iteration begin anew.
    CHECK(plans(rank)[2] == plans(rank)[0]);
    CHECK(plans(rank)[3] == plans(rank)[1]);
  }
}

TEST_CASE("what a compiled backward executes is what was planned, in each iteration") {
  for (const BucketFusion fusion : {BucketFusion::concat, BucketFusion::coalesce, BucketFusion::none}) {
    for (const bool schedules : {true, false}) {
      CAPTURE(to_string(fusion), schedules);
      for (const int world : {1, 2, 4}) {
        for (const Run& rank :
             played(four_linears({.fusion = fusion, .schedule_waits = schedules}, iteration), world)) {
          REQUIRE(plans(rank).size() == 3);
          for (const Iteration& each : rank.iterations()) {
            const StepGraph plan = plans(rank)[static_cast<std::size_t>(each.index())].back();
            CHECK(executed_reductions(each) == planned_reductions(plan));
            CHECK(executed_work(each) == planned_work(plan));
            CHECK(std::ranges::count(planned_work(plan), "wait") == (world == 1                       ? 0
                                                                     : fusion == BucketFusion::concat ? 3
                                                                                                      : 8));
          }
        }
      }
    }
  }
}

std::vector<CompilePlan> all_plans() {
  std::vector<CompilePlan> plans;
  for (const CompiledRegion region : {CompiledRegion::forward_backward, CompiledRegion::backward}) {
    for (const BucketFusion fusion : {BucketFusion::concat, BucketFusion::coalesce, BucketFusion::none}) {
      for (const bool schedules : {true, false}) plans.push_back({region, fusion, schedules});
    }
  }
  return plans;
}

// Layers of several shapes, a layer that is used twice, and one that is frozen.
std::vector<Module> mixed_layers() {
  Module frozen = linear_module("frozen", 5, 5);
  frozen.frozen = true;
  return {linear_module("a", 4, 5),
          module_of(ModuleKind::relu, "relu"),
          linear_module("b", 5, 5),
          frozen,
          module_of(ModuleKind::residual, "c", {linear_module("in", 5, 3, false), linear_module("out", 3, 5)}),
          use_of("again", "b"),
          linear_module("d", 5, 2)};
}

void expect_equal(const Run& compiled, const Run& eager) {
  REQUIRE(!eager.captures().empty());
  REQUIRE(compiled.captures().size() == eager.captures().size());
  for (std::size_t i = 0; i < eager.captures().size(); ++i) {
    CAPTURE(i);
    const Capture &found = compiled.captures()[i], &expected = eager.captures()[i];
    CHECK(found.loss == expected.loss);
    REQUIRE(found.parameters.size() == expected.parameters.size());
    for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
      CAPTURE(expected.parameters[p].name);
      CHECK(found.parameters[p].shard == expected.parameters[p].shard);
      REQUIRE(found.parameters[p].gradient.defined() == expected.parameters[p].gradient.defined());
      if (found.parameters[p].gradient.defined())
        CHECK(found.parameters[p].gradient == expected.parameters[p].gradient);
    }
  }
}

void expect_compiled_equals_eager(Scenario scenario, int world) {
  replicate_plan(scenario.plan).first_bucket_bytes = 40;
  replicate_plan(scenario.plan).bucket_bytes = 100;
  scenario.device.hide_undeclared_memory = world == 2;
  const std::vector<Run> eager = played(scenario, world);
  for (const CompilePlan& how : all_plans()) {
    CAPTURE(to_string(how.region), to_string(how.fusion), how.schedule_waits);
    replicate_plan(scenario.plan).compile = how;
    const std::vector<Run> compiled = played(scenario, world);
    for (std::size_t rank = 0; rank < eager.size(); ++rank) {
      expect_sound(compiled[rank], static_cast<int>(rank));
      CHECK(plans(eager[rank]).empty());
      expect_equal(compiled[rank], eager[rank]);
    }
  }
}

void expect_compiled_equals_eager_with_hooks(int world) {
  using Hook = std::optional<HookKind>;
  for (const Hook hook : {Hook(), Hook(HookKind::bf16_compress), Hook(HookKind::fp16_compress)}) {
    for (const std::vector<Action>& body : {iteration, two_halves, without_sync}) {
      CAPTURE(world, hook.has_value(), body.size());
      Scenario scenario = scenario_of(mixed_layers(), body);
      if (hook)
        scenario.script.segments.insert(scenario.script.segments.begin(),
                                        {.iterations = 1, .body = {compressing(*hook)}});
      expect_compiled_equals_eager(scenario, world);
    }
  }
}

TEST_CASE("a compiled step equals the eager step to the bit") { expect_compiled_equals_eager_with_hooks(2); }

TEST_CASE("a compiled step equals the eager step to the bit, at other world sizes", "[long]") {
  for (const int world : {1, 4}) expect_compiled_equals_eager_with_hooks(world);
}

TEST_CASE("a backward that does not reduce has no reduction in its plan") {
  const std::vector<Run> ranks = played(four_linears({}, without_sync, 1), 2);
  for (const Run& rank : ranks) {
    REQUIRE(plans(rank).size() == 2);
    const StepGraph alone = plans(rank)[0].back(), reducing = plans(rank)[1].back();
    CHECK(std::ranges::all_of(alone.nodes, has_traced_work));
    CHECK(std::ranges::count(alone.values, StepValueKind::gradient, &StepValue::kind) == 8);
    CHECK(std::ranges::count(reducing.nodes, StepNodeKind::all_reduce, &StepNode::kind) == 3);
    CHECK(std::ranges::count(reducing.nodes, StepNodeKind::copy, &StepNode::kind) == 8);
  }
}

TEST_CASE("one rank divides, and has neither all-reduces nor waits") {
  const StepGraph plan = plans(played(four_linears({}, two_halves, 1), 1).front()).back().back();
  CHECK(std::ranges::count(plan.nodes, divide_operation, &StepNode::operation) == 8);
  CHECK(std::ranges::count(plan.nodes, StepNodeKind::copy, &StepNode::kind) == 8);
  CHECK(std::ranges::count(plan.nodes, StepNodeKind::all_reduce, &StepNode::kind) == 0);
  CHECK(std::ranges::count(plan.nodes, StepNodeKind::wait, &StepNode::kind) == 0);
}

TEST_CASE("a hook that compresses is in the plan, and buckets count its bytes") {
  std::vector<Action> body = iteration;
  Scenario scenario = four_linears({}, body, 1);
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {.iterations = 1, .body = {compressing(HookKind::bf16_compress)}});
  const StepGraph plan = plans(played(scenario, 2).front()).back().back();
  // A weight has 32 bytes now, so the first bucket has two.
  CHECK(planned_reductions(plan) == Words{"bucket 0: 36 bf16 sum of 0,1", "bucket 1: 44 bf16 sum of 0,1"});
  const auto casts_to = [&plan](DType dtype) {
    return std::ranges::count_if(plan.nodes, [&](const StepNode& node) {
      return node.operation == cast_operation && plan.values[node.outputs.front()].dtype == dtype;
    });
  };
  CHECK(casts_to(DType::bf16) == 8);
  CHECK(casts_to(DType::f32) == 8);
}

TEST_CASE("all-reduces overlap with the backward when waits are scheduled") {
  const auto times = [](const CompilePlan& how, const std::vector<Action>& body) {
    std::vector<Nanoseconds> found;
    const std::vector<Run> ranks = played(four_linears(how, body), 2);
    for (const Iteration& each : ranks.front().iterations()) found.push_back(each.forward_backward());
    return found;
  };
  constexpr Nanoseconds ms = 1'000'000;
  const std::vector<Action> accumulating{action(ActionKind::forward), action(ActionKind::backward),
                                         action(ActionKind::step)};
  for (const std::vector<Action>& body : {iteration, accumulating}) {
    // 100 ms forward, 200 ms backward, and the last bucket.
    CHECK(times({.fusion = BucketFusion::concat}, body) == std::vector<Nanoseconds>(3, 310 * ms));
    // One call reduces the operands of the last bucket.
    CHECK(times({.fusion = BucketFusion::coalesce}, body) == std::vector<Nanoseconds>(3, 310 * ms));
    CHECK(times({.fusion = BucketFusion::none}, body) == std::vector<Nanoseconds>(3, 320 * ms));
    // A wait right after its all-reduce: nothing overlaps.
    CHECK(times({.fusion = BucketFusion::concat, .schedule_waits = false}, body) ==
          std::vector<Nanoseconds>(3, 330 * ms));
    CHECK(times({.fusion = BucketFusion::none, .schedule_waits = false}, body) ==
          std::vector<Nanoseconds>(3, 380 * ms));
  }
}

std::ptrdiff_t forward_works(const Run& run) {
  return std::ranges::count_if(run.trace().facts, [](const Fact& fact) {
    const auto* const work = std::get_if<fact::Work>(&fact);
    return work != nullptr && work->kind == WorkKind::forward;
  });
}

TEST_CASE("memory is freed after its last use") {
  const std::vector<Action> body{action(ActionKind::forward), action(ActionKind::backward),
                                 action(ActionKind::zero_grad)};
  for (const CompiledRegion region : {CompiledRegion::forward_backward, CompiledRegion::backward}) {
    CAPTURE(to_string(region));
    Scenario scenario = four_linears({.region = region}, body);
    const Run compiled = played(scenario, 2).front();
    replicate_plan(scenario.plan).compile.reset();
    const Run eager = played(scenario, 2).front();
    const std::vector<Iteration> all = compiled.iterations(), expected = eager.iterations();
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK(all[i].peak(MemoryClass::activation) == expected[i].peak(MemoryClass::activation));
      // All gradients have 320 bytes. While the last bucket is packed, its bytes are there twice.
      CHECK(all[i].peak(MemoryClass::gradient).bytes == (region == CompiledRegion::backward ? 400 : 416));
      CHECK(all[i].live_after(MemoryClass::gradient, ActionKind::backward).bytes == 320);
      CHECK(all[i].peak(MemoryClass::reduce_input).bytes == 0);
    }
  }
}

TEST_CASE("a wait is for its own all-reduce") {
  Scenario scenario =
      four_linears({}, {action(ActionKind::forward), action(ActionKind::backward), action(ActionKind::step)}, 2);
  scenario.costs.work[WorkKind::reduce_copy_out] = 2'000'000;
  const std::vector<Run> ranks = played(scenario, 2);
  std::vector<Nanoseconds> times;
  for (const Iteration& each : ranks.front().iterations()) times.push_back(each.forward_backward());
  // 100 ms forward, 200 ms backward, 6 ms for three divisions, and the last bucket. In the second iteration, copies out
  // of the first two buckets take as long as the all-reduce of the last bucket, and overlap with it; three more copies
  // follow.
  CHECK(times == std::vector<Nanoseconds>{316'000'000, 322'000'000});
}

TEST_CASE("a captured forward that fails executes nothing, and the next one begins anew") {
  Action failing = action(ActionKind::forward);
  failing.fails_in = "d";
  std::vector<Action> body = iteration;
  Scenario plain = scenario_of(mixed_layers(), body);
  replicate_plan(plain.plan).compile = CompilePlan();
  Scenario scenario = plain;
  scenario.script.segments.front().body.insert(scenario.script.segments.front().body.begin(), failing);
  const std::vector<Run> expected = played(plain, 2), found = played(scenario, 2);
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    expect_sound(found[rank], static_cast<int>(rank));
    expect_equal(found[rank], expected[rank]);
    CHECK(plans(found[rank]) == plans(expected[rank]));
    CHECK(forward_works(found[rank]) == forward_works(expected[rank]));
  }
}

TEST_CASE("evaluations, and forwards before a backward that is captured alone, run eagerly") {
  std::vector<Action> body = iteration;
  body.insert(body.begin() + 1, action(ActionKind::evaluate));
  const std::vector<Run> ranks = played(four_linears({.region = CompiledRegion::backward}, body), 2);
  for (const Run& rank : ranks) {
    expect_sound(rank, rank.trace().rank);
    for (const std::vector<StepGraph>& plan : plans(rank)) {
      REQUIRE(plan.size() == 1);
      CHECK(plan.front().pass == StepPass::backward);
    }
  }
}

TEST_CASE("the forwards before a backward are in its plan") {
  std::vector<Action> body = iteration;
  body.insert(body.begin(), action(ActionKind::forward));
  const std::vector<Run> ranks = played(four_linears({}, body), 2);
  for (const Run& rank : ranks) {
    expect_sound(rank, rank.trace().rank);
    REQUIRE(plans(rank).size() == 3);
    for (const std::vector<StepGraph>& plan : plans(rank)) CHECK(plan.size() == 3);
  }
}

TEST_CASE("a compiled step refuses a user's hook, and an eager trainer has no plan") {
  on_thread_ranks(1, [](int rank, Group& group) {
    device::SimPlatform platform({}, group, rank);
    const auto made = [&](const Scenario& scenario) {
      std::unique_ptr<Trainer> trainer;
      REQUIRE(
          Reference().create(scenario.model, scenario.plan, {platform.device(), platform.world(), rank}, trainer).ok());
      return trainer;
    };
    Scenario scenario = four_linears({}, iteration);
    const std::unique_ptr<Trainer> compiled = made(scenario);
    const Reply refused =
        compiled->register_gradient_hook({}, {.state = 0, .call = [](auto, const auto&, auto) { return Reply(); }});
    CHECK(refused.status() == CallStatus::unsupported);
    CHECK(refused.error() ==
          "replicate: a compiled step cannot call a user's gradient hook: leave compile out, or use a hook that "
          "compresses");
    CHECK(compiled->perform(compressing(HookKind::bf16_compress), {}).ok());
    replicate_plan(scenario.plan).compile.reset();
    std::vector<StepGraph> plan;
    CHECK(made(scenario)->compiled_plan(plan).status() == CallStatus::unsupported);
  });
}

TEST_CASE("a trace keeps work, and memory comes when the work runs") {
  device::SimDevice inner({}, 0);
  TracingDevice device(inner);
  const auto live = [&inner] { return inner.live_bytes(); };
  {
    const Tensor eager = device.empty(Device::compute, DType::f32, {2}, MemoryClass::other, "eager");
    CHECK(live() == 8);
    device.begin_trace();
    const Tensor traced = device.empty(Device::compute, DType::f32, {4}, MemoryClass::other, "traced");
    bool has_run = false;
    device.submit(Device::compute,
                  {.label = "work", .writes = {traced}, .run = [&](const Kernels&, NativeStream) { has_run = true; }});
    CHECK(device.calls_traced() == 1);
    std::vector<TracedCall> calls = device.end_trace();
    REQUIRE(calls.size() == 1);
    Work work = std::get<Work>(std::move(calls.front()));
    CHECK(!has_run);
    CHECK(live() == 8);
    CHECK_THROWS_MATCHES(
        device.submit(Device::compute, work), std::logic_error,
        Catch::Matchers::Message("other \"work\" uses memory that no work has written: its pass has not run"));
    device.provide(traced);
    CHECK(live() == 24);
    CHECK(traced.range().buffer != 0);
    device.submit(Device::compute, std::move(work));
    CHECK(has_run);
  }
  CHECK(live() == 0);
}

// One training step after the other, with the tape that layers record on.
class Steps {
 public:
  Steps(const Model& model, const ReplicatePlan& plan, Group& group)
      : device_(inner_),
        world_(inner_.communicator(group)),
        network_(model),
        step_(network_.parameters(), device_, *world_, plan),
        tape_(device_) {
    for (Parameter& parameter : network_.parameters())
      parameter.value =
          device_.empty(Device::compute, parameter.dtype, parameter.shape, MemoryClass::parameter, parameter.name);
  }

  void run(std::int64_t rows, const Passage& passage = {}) {
    const Tensor input = inner_.empty(Device::compute, DType::f32, {rows, 4}, MemoryClass::other, "batch");
    step_.begin_forward();
    const Variable output = network_.forward(device_, tape_, {}, {input}, passage);
    step_.end_forward();
    step_.begin_backward(true);
    const Tensor gradient = inner_.empty(Device::compute, DType::f32, {rows, 4}, MemoryClass::other, "gradient");
    tape_.backward({{output, [&] { return gradient; }}}, [this](Parameter& parameter) { step_.ready(parameter); });
    step_.end_backward();
  }
  void drop_gradients() {
    for (Parameter& parameter : network_.parameters()) parameter.gradient = {};
  }
  std::size_t compilations() const { return step_.passes().compilations(); }

 private:
  device::SimDevice inner_{{}, 0};
  TracingDevice device_;
  std::unique_ptr<Communicator> world_;
  Network network_;
  CompiledStep step_;
  Tape tape_;
};

TEST_CASE("a step is compiled again when a shape, a path or an existing gradient is new, and otherwise kept") {
  const Model model = model_of(
      {linear_module("a", 4, 4), module_of(ModuleKind::choice, "way",
                                           {use_of("left", "a"), module_of(ModuleKind::sequential, "right",
                                                                           {use_of("0", "a"), use_of("1", "a")})})});
  ReplicatePlan plan;
  plan.compile = CompilePlan();
  on_thread_ranks(1, [&](int, Group& group) {
    Steps steps(model, plan, group);
    steps.run(2);
    CHECK(steps.compilations() == 2);  // forward and backward
    steps.drop_gradients();
    steps.run(2);
    CHECK(steps.compilations() == 2);
    steps.run(2);
    CHECK(steps.compilations() == 3);  // gradients exist: another backward
    steps.drop_gradients();
    steps.run(3);
    CHECK(steps.compilations() == 5);
    steps.drop_gradients();
    steps.run(2, {.module = {}, .fails_in = {}, .paths = {{"way", "right"}}});
    CHECK(steps.compilations() == 7);
    steps.drop_gradients();
    steps.run(2);
    CHECK(steps.compilations() == 7);
  });
}

}  // namespace
}  // namespace shardproof::engines
