// Linear modules divided among ranks, and copies of the divided model: such a world trains as the undivided model does
// on as many ranks as there are copies. The serial model computes that.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/engines/replicate/tensor_parallel.hpp"
#include "harness/faults/wrappers.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "tests/engines/serial_comparison.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace shardproof::testing;

namespace {

// -- Scenarios

struct Sizes {
  int copies = 1, parts = 1;
  int world() const { return copies * parts; }
};

constexpr std::array meshes{Sizes{2, 2}, Sizes{3, 2}, Sizes{2, 3}, Sizes{4, 2}, Sizes{2, 4}};

Module layer(std::string name, std::int64_t in, std::int64_t out, bool bias = true) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out, .bias = bias};
}

Module activation(std::string name) { return {.name = std::move(name), .kind = ModuleKind::relu}; }

Module holder(ModuleKind kind, std::string name, std::vector<Module> children) {
  return {.name = std::move(name), .kind = kind, .children = std::move(children)};
}

const Action forward{ActionKind::forward}, backward{ActionKind::backward}, step{ActionKind::step},
    capture{ActionKind::capture}, zero_grad{ActionKind::zero_grad}, evaluate{ActionKind::evaluate};

Action sync(bool on) { return {.kind = ActionKind::set_requires_gradient_sync, .value = on}; }

const std::vector<Action> reduced{forward, backward, capture, zero_grad},
    trained{forward, backward, capture, step, capture, zero_grad};

// The batch of a copy of the model repeats one row, once for each copy. So gradients are multiples of that number, and
// their mean does not round. The row's numbers are small, so that values keep few bits: all are 1, or all -1, and one
// of them is three times that.
void give_inputs(Script& script, Sizes sizes) {
  constexpr int iterations = 4, features = 3;
  script.input = {sizes.copies, features};
  for (int iteration = 0; iteration < iterations; ++iteration) {
    auto& by_copy = script.given.emplace_back();
    for (int copy = 0; copy < sizes.copies; ++copy) {
      const int hot = (iteration + copy) % features;
      const int sign = formula::small_integer(static_cast<std::uint32_t>(100 * iteration + copy), 0) < 0 ? -1 : 1;
      auto& values = by_copy.emplace_back();
      for (int i = 0; i < sizes.copies * features; ++i) values.push_back(i % features == hot ? 3 * sign : sign);
    }
  }
}

Scenario on_mesh(std::vector<Module> children, engines::TensorParallelModules divided, Sizes sizes,
                 std::vector<Action> body) {
  Scenario scenario;
  scenario.model.root.children = std::move(children);
  scenario.model.loss = {.kind = LossKind::dot};
  scenario.model.init_divisor = 1;
  scenario.plan.mesh = {.shape = {sizes.copies, sizes.parts}, .names = {"dp", "tp"}};
  replicate_plan(scenario.plan).tensor_parallel = std::move(divided);
  scenario.plan.optimizer.rate = 0.25;
  scenario.script.segments = {{3, std::move(body)}};
  give_inputs(scenario.script, sizes);
  return scenario;
}

// Two pairs, with undivided modules before, between and after.
Scenario pairs(Sizes sizes, std::vector<Action> body = reduced) {
  return on_mesh(
      {layer("stem", 3, 3), layer("fc1", 3, 12), activation("relu"), layer("fc2", 12, 5), activation("between"),
       holder(ModuleKind::residual, "block",
              {layer("fc3", 5, 12, false), activation("relu"), layer("fc4", 12, 5, false)}),
       layer("head", 5, 2), activation("last")},
      {{"fc1", TensorParallel::column},
       {"fc2", TensorParallel::row},
       {"block.fc3", TensorParallel::column},
       {"block.fc4", TensorParallel::row}},
      sizes, std::move(body));
}

// One pair alone, so that three steps stay exact.
Scenario pair(Sizes sizes, std::vector<Action> body = trained) {
  return on_mesh({layer("fc1", 3, 12), activation("relu"), layer("fc2", 12, 5), activation("last")},
                 {{"fc1", TensorParallel::column}, {"fc2", TensorParallel::row}}, sizes, std::move(body));
}

void sleep_in_linear_modules(Module& module, Nanoseconds forward_sleep, Nanoseconds backward_sleep) {
  if (module.kind == ModuleKind::linear) {
    module.forward_sleep = forward_sleep;
    module.backward_sleep = backward_sleep;
  }
  for (Module& child : module.children) sleep_in_linear_modules(child, forward_sleep, backward_sleep);
}

// -- What the undivided model gives

Scenario undivided(const Scenario& scenario) {
  Scenario whole{.model = scenario.model, .script = scenario.script};
  whole.plan.optimizer = scenario.plan.optimizer;
  fully_shard_plan(whole.plan).wrap = {{.modules = {""}}};
  for (Script::Segment& segment : whole.script.segments) {
    std::erase_if(segment.body, [](const Action& action) { return action.kind == ActionKind::register_hook; });
    if (segment.body.empty()) segment.body = {zero_grad};
  }
  return whole;
}

using Play = std::function<std::vector<Run>(const Scenario&, int ranks)>;

// Values of parameters, gradients and losses that differ from those of the undivided model.
std::set<std::string> differences(const Scenario& scenario, Sizes sizes, const std::vector<Run>& runs) {
  const auto expected = oracles::train_serially(undivided(scenario), sizes.copies, oracles::Arithmetic::f32);
  std::set<std::string> different;
  for (int rank = 0; rank < sizes.world(); ++rank) {
    const std::vector<Capture>& captures = runs[static_cast<std::size_t>(rank)].captures();
    REQUIRE(captures.size() == expected.size());
    for (std::size_t i = 0; i < captures.size(); ++i) {
      REQUIRE(expected[i].order_shows == "");
      REQUIRE(captures[i].parameters.size() == expected[i].parameters.size());
      const auto copy = static_cast<std::size_t>(rank / sizes.parts);
      if (static_cast<float>(captures[i].loss) != static_cast<float>(expected[i].losses[copy]))
        different.insert("loss");
      for (std::size_t p = 0; p < captures[i].parameters.size(); ++p) {
        const CapturedParameter& held = captures[i].parameters[p];
        REQUIRE(held.name == expected[i].parameters[p].name);
        REQUIRE(held.shape == expected[i].parameters[p].shape);
        if (held.shard != part_of(expected[i].parameters[p], held, 0)) different.insert(held.name);
        const oracles::NamedValues& gradient = expected[i].gradients[p];
        REQUIRE(held.gradient.defined() == gradient.defined());
        if (gradient.defined() && held.gradient != part_of(gradient, held, 0))
          different.insert(held.name + " gradient");
      }
    }
  }
  return different;
}

// -- Who communicates with whom

std::vector<int> part_group(int rank, Sizes sizes) {
  std::vector<int> group;
  for (int part = 0; part < sizes.parts; ++part) group.push_back(rank / sizes.parts * sizes.parts + part);
  return group;
}

std::vector<int> copy_group(int rank, Sizes sizes) {
  std::vector<int> group;
  for (int copy = 0; copy < sizes.copies; ++copy) group.push_back(copy * sizes.parts + rank % sizes.parts);
  return group;
}

void check_groups(const Run& run, int rank, Sizes sizes) {
  const auto& divided = replicate_plan(run.scenario().plan).tensor_parallel;
  for (const Fact& fact : run.trace().facts) {
    const auto* const collective = std::get_if<fact::Collective>(&fact);
    if (collective == nullptr) continue;
    CAPTURE(collective->tag, rank);
    CHECK(collective->group == (divided.contains(collective->tag) ? part_group(rank, sizes) : copy_group(rank, sizes)));
  }
}

std::vector<std::string> tags_of(const std::vector<fact::Collective>& collectives,
                                 const engines::TensorParallelModules& divided) {
  std::vector<std::string> tags;
  for (const fact::Collective& collective : collectives) {
    if (divided.contains(collective.tag)) tags.push_back(collective.tag);
  }
  return tags;
}

void check_sound(const std::vector<Run>& runs, Sizes sizes) {
  for (int rank = 0; rank < sizes.world(); ++rank) {
    const Run& run = runs[static_cast<std::size_t>(rank)];
    for (const trace::Race& race : run.races()) FAIL_CHECK(trace::describe(race));
    CHECK(run.left_alive() == 0);
    check_groups(run, rank, sizes);
  }
}

void check_as_undivided(const Scenario& scenario, Sizes sizes) {
  CAPTURE(sizes.copies, sizes.parts);
  validate(scenario);
  const std::vector<Run> runs = played(scenario, sizes.world());
  CHECK(differences(scenario, sizes, runs) == std::set<std::string>());
  check_sound(runs, sizes);
}

// -- Engines that reduce wrongly

class OtherwiseReducing final : public CommunicatorWrapper {
 public:
  using Reduce = std::function<void(Communicator& group, Stream stream, const Collective& collective)>;
  OtherwiseReducing(Communicator& inner, Reduce reduce) : CommunicatorWrapper(inner), reduce_(std::move(reduce)) {}
  void run(Stream stream, const Collective& collective) override {
    if (collective.kind != CollectiveKind::all_reduce) return CommunicatorWrapper::run(stream, collective);
    reduce_(inner_, stream, collective);
  }

 private:
  Reduce reduce_;
};

bool is_of_bucket(const Collective& collective) { return collective.tag.starts_with("bucket"); }

std::vector<Run> played_otherwise(
    const Scenario& scenario, Sizes sizes,
    const std::function<OtherwiseReducing::Reduce(Communicator& world, Device& device)>& make) {
  std::vector<std::optional<Run>> runs(static_cast<std::size_t>(sizes.world()));
  on_thread_ranks(sizes.world(), [&](int rank, Group& group) {
    const auto subject = altered(std::make_unique<engines::Reference>(), {.parts = [&](const EngineContext& context) {
                                   return AlteredParts{.communicator = [&make, &world = context.world,
                                                                        &device = context.device](Communicator& inner) {
                                     return std::make_unique<OtherwiseReducing>(inner, make(world, device));
                                   }};
                                 }});
    runs[static_cast<std::size_t>(rank)] = play_simulated(scenario, *subject, group, rank);
  });
  std::vector<Run> all;
  for (std::optional<Run>& run : runs) all.push_back(std::move(*run));
  return all;
}

}  // namespace

TEST_CASE("a divided model trains as the undivided one, on every mesh") {
  for (const Sizes sizes : meshes) {
    check_as_undivided(pair(sizes), sizes);
    check_as_undivided(pairs(sizes), sizes);
  }
}

namespace {

using Reductions = std::vector<std::pair<std::string, std::vector<int>>>;  // label and ranks

Reductions planned_in(const StepGraph& graph) {
  Reductions found;
  for (const StepNode& node : graph.nodes) {
    if (node.kind == StepNodeKind::all_reduce) found.insert(found.end(), node.inputs.size(), {node.label, node.group});
  }
  return found;
}

// In its first passes, an engine also broadcasts values of parameters and the order of gradients.
Reductions run_in(const Iteration& iteration, ActionKind call) {
  Reductions found;
  for (const fact::Collective& collective : iteration.collectives(call)) {
    if (collective.tag != parameter_values_tag && collective.tag != ready_order_tag)
      found.emplace_back(collective.tag, collective.group);
  }
  return found;
}

// Sums over parts have the label of their module, and gradients are reduced over copies.
void check_plan(const StepGraph& graph, const Scenario& scenario, int rank, Sizes sizes) {
  CHECK(objection_to(graph) == "");
  const auto& divided = replicate_plan(scenario.plan).tensor_parallel;
  for (const auto& [label, group] : planned_in(graph)) {
    CAPTURE(label);
    CHECK(group == (divided.contains(label) ? part_group(rank, sizes) : copy_group(rank, sizes)));
    CHECK((divided.contains(label) || label.starts_with("bucket ")));
  }
}

void check_compiled(Scenario scenario, Sizes sizes) {
  const std::vector<Run> eager = played(scenario, sizes.world());
  for (const CompiledRegion region : {CompiledRegion::forward_backward, CompiledRegion::backward}) {
    for (const BucketFusion fusion : {BucketFusion::none, BucketFusion::coalesce, BucketFusion::concat}) {
      for (const bool schedules : {true, false}) {
        CAPTURE(sizes.copies, sizes.parts, to_string(region), to_string(fusion), schedules);
        replicate_plan(scenario.plan).compile = {.region = region, .fusion = fusion, .schedule_waits = schedules};
        const std::vector<Run> compiled = played(scenario, sizes.world());
        CHECK(differences(scenario, sizes, compiled) == std::set<std::string>());
        check_sound(compiled, sizes);
        for (int rank = 0; rank < sizes.world(); ++rank) {
          const Run &run = compiled[static_cast<std::size_t>(rank)], &expected = eager[static_cast<std::size_t>(rank)];
          REQUIRE(run.captures().size() == expected.captures().size());
          for (std::size_t i = 0; i < run.captures().size(); ++i)
            CHECK(run.captures()[i].loss == expected.captures()[i].loss);
          REQUIRE_FALSE(run.compiled_steps().empty());
          const std::vector<Iteration> all = run.iterations();
          for (const CompiledStep& made : run.compiled_steps()) {
            CHECK(made.graphs->size() == (region == CompiledRegion::backward ? 1U : 2U));
            for (const StepGraph& graph : *made.graphs) {
              check_plan(graph, scenario, rank, sizes);
              const ActionKind call = graph.pass == StepPass::forward ? ActionKind::forward : ActionKind::backward;
              CHECK(run_in(all[static_cast<std::size_t>(made.iteration)], call) == planned_in(graph));
            }
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("a compiled step of a divided model contains its sums, and trains as the undivided model does") {
  for (const Sizes sizes : meshes) {
    for (Scenario scenario : {pair(sizes), pairs(sizes)}) {
      replicate_plan(scenario.plan).first_bucket_bytes = 40;
      replicate_plan(scenario.plan).bucket_bytes = 100;
      scenario.device.hide_undeclared_memory = sizes.world() == 4;
      check_compiled(scenario, sizes);
    }
  }
  for (const Sizes sizes : {Sizes{1, 2}, Sizes{2, 1}, Sizes{1, 1}}) check_compiled(pairs(sizes), sizes);
}

TEST_CASE("a divided model trains as the undivided one without copies, without parts, and alone") {
  for (const Sizes sizes : {Sizes{1, 2}, Sizes{1, 3}, Sizes{2, 1}, Sizes{1, 1}}) {
    check_as_undivided(pair(sizes), sizes);
    check_as_undivided(pairs(sizes), sizes);
    for (const Run& run : played(pairs(sizes), sizes.world())) {
      const auto& divided = replicate_plan(run.scenario().plan).tensor_parallel;
      for (const Iteration& iteration : run.iterations()) {
        CHECK(tags_of(iteration.collectives(), divided).empty() == (sizes.parts == 1));
        const bool reduces = std::ranges::any_of(iteration.collectives(),
                                                 [&](const fact::Collective& c) { return !divided.contains(c.tag); });
        CHECK(reduces == (sizes.copies > 1));
      }
    }
  }
}

TEST_CASE("a pair sums once in forward and once in backward, and not in the backward of the model's input") {
  const Sizes sizes{2, 2};
  for (const Run& run : played(pairs(sizes), sizes.world())) {
    const auto& divided = replicate_plan(run.scenario().plan).tensor_parallel;
    for (const Iteration& iteration : run.iterations()) {
      CHECK(tags_of(iteration.collectives(ActionKind::forward), divided) ==
            std::vector<std::string>{"fc2", "block.fc4"});
      CHECK(tags_of(iteration.collectives(ActionKind::backward), divided) ==
            std::vector<std::string>{"block.fc3", "fc1"});
      // Two rows, with the features of the module's output or input.
      for (const fact::Collective& collective : iteration.collectives()) {
        if (collective.tag == "fc2" || collective.tag == "block.fc3") CHECK(collective.in_count == 2 * 5);
        if (collective.tag == "fc1") CHECK(collective.in_count == 2 * 3);
        if (divided.contains(collective.tag)) CHECK(collective.op == ReduceOp::sum);
      }
    }
  }
  for (const Run& run : played(pair(sizes), sizes.world())) {
    for (const Iteration& iteration : run.iterations()) {
      CHECK(tags_of(iteration.collectives(), replicate_plan(run.scenario().plan).tensor_parallel) ==
            std::vector<std::string>{"fc2"});
    }
  }
}

TEST_CASE("an evaluation sums in forward alone") {
  const Sizes sizes{2, 2};
  const Scenario scenario = pairs(sizes, {evaluate, forward, backward, capture, zero_grad});
  check_as_undivided(scenario, sizes);
  for (const Run& run : played(scenario, sizes.world())) {
    for (const Iteration& iteration : run.iterations()) {
      CHECK(tags_of(iteration.collectives(ActionKind::evaluate), replicate_plan(run.scenario().plan).tensor_parallel) ==
            std::vector<std::string>{"fc2", "block.fc4"});
    }
  }
}

TEST_CASE("divided gradients go through buckets, views, switches and late values as others do") {
  const std::vector<Action> accumulated{sync(false), forward,  backward, sync(true),
                                        forward,     backward, capture,  zero_grad};
  for (const Sizes sizes : meshes) {
    for (const std::int64_t bytes : {1, 100, 1'000'000}) {
      for (const BucketGradients gradients : {BucketGradients::copies, BucketGradients::views}) {
        for (const bool unused : {false, true}) {
          CAPTURE(bytes, to_string(gradients), unused);
          Scenario scenario = pairs(sizes, accumulated);
          ReplicatePlan& plan = replicate_plan(scenario.plan);
          plan.first_bucket_bytes = plan.bucket_bytes = bytes;
          plan.gradients = gradients;
          plan.unused_parameters = unused;
          check_as_undivided(scenario, sizes);
        }
      }
    }
  }
  Scenario late = pair({2, 2});
  late.plan.initialisation = Initialisation::meta;
  late.script.segments.insert(late.script.segments.begin(), {1, {{ActionKind::materialize}, {ActionKind::initialize}}});
  check_as_undivided(late, {2, 2});
}

TEST_CASE("work on parts reads and writes what it declares") {
  Scenario scenario = pairs({2, 2});
  scenario.device.hide_undeclared_memory = true;
  check_as_undivided(scenario, {2, 2});
}

TEST_CASE("frozen modules are divided as others, and get no gradient") {
  for (const std::size_t frozen : {0U, 1U, 3U}) {  // stem, fc1, fc2
    CAPTURE(frozen);
    Scenario scenario = pairs({2, 2});
    scenario.model.root.children[frozen].frozen = true;
    check_as_undivided(scenario, {2, 2});
  }
  // Nothing before fc1 learns, so its input has no gradient to sum.
  Scenario scenario = pairs({2, 2});
  scenario.model.root.children[0].frozen = true;
  for (const Run& run : played(scenario, 4)) {
    for (const Iteration& iteration : run.iterations()) {
      CHECK(tags_of(iteration.collectives(ActionKind::backward), replicate_plan(scenario.plan).tensor_parallel) ==
            std::vector<std::string>{"block.fc3"});
    }
  }
}

TEST_CASE("divided modules may be used again, chosen, and discarded") {
  const Sizes sizes{2, 2};
  const engines::TensorParallelModules divided{{"up", TensorParallel::column}, {"down", TensorParallel::row}};
  Scenario used = on_mesh({layer("up", 3, 4),
                           activation("relu"),
                           layer("down", 4, 3),
                           {.name = "up_again", .kind = ModuleKind::use, .target = "up"},
                           {.name = "down_again", .kind = ModuleKind::use, .target = "down"},
                           layer("head", 3, 2)},
                          divided, sizes, reduced);
  check_as_undivided(used, sizes);

  Scenario chosen =
      on_mesh({layer("up", 3, 4), holder(ModuleKind::choice, "way", {activation("left"), activation("right")}),
               layer("down", 4, 3), holder(ModuleKind::discard, "aside", {layer("x", 3, 4)})},
              divided, sizes, reduced);
  replicate_plan(chosen.plan).tensor_parallel["aside.x"] = TensorParallel::column;
  replicate_plan(chosen.plan).unused_parameters = true;
  check_as_undivided(chosen, sizes);
}

TEST_CASE("buckets hold parts, and a rank has its part of the memory alone") {
  for (const Sizes sizes : meshes) {
    CAPTURE(sizes.copies, sizes.parts);
    Scenario scenario = pair(sizes);
    replicate_plan(scenario.plan).first_bucket_bytes = replicate_plan(scenario.plan).bucket_bytes = 1;
    const std::uint64_t parts = static_cast<std::uint64_t>(sizes.parts);
    const std::uint64_t fc1 = (12 * 3 + 12) / parts, fc2_weight = 12 * 5 / parts, fc2_bias = 5;
    for (const Run& run : played(scenario, sizes.world())) {
      CHECK(run.peak(MemoryClass::parameter).bytes == 4 * (fc1 + fc2_weight + fc2_bias));
      for (const Iteration& iteration : run.iterations()) {
        CHECK(iteration.live_after(MemoryClass::gradient, ActionKind::backward).bytes ==
              4 * (fc1 + fc2_weight + fc2_bias));
        std::vector<std::uint64_t> counts;
        for (const fact::Collective& collective : iteration.collectives(ActionKind::backward))
          counts.push_back(collective.in_count);
        if (iteration.index() == 0) CHECK(counts == std::vector{fc1 + fc2_weight + fc2_bias});
        if (iteration.index() > 0) CHECK(counts == std::vector{fc2_bias, fc2_weight, 12 / parts, 36 / parts});
      }
      for (const CapturedParameter& held : run.captures().front().parameters) {
        const std::int64_t divisor = held.name == "fc2.bias" ? 1 : sizes.parts;
        CHECK(held.shard.numel() * divisor == numel(held.shape));
        CHECK(held.gradient.shape() == held.shard.shape());
        CHECK(held.dim == (held.name == "fc2.weight" ? 1 : 0));
      }
    }
  }
}

TEST_CASE("the compute stream waits for each sum over parts") {
  const Sizes sizes{2, 2};
  constexpr Nanoseconds ms = 1'000'000;
  Scenario scenario = pairs(sizes);
  sleep_in_linear_modules(scenario.model.root, 20 * ms, 40 * ms);
  scenario.costs.collectives[CollectiveKind::all_reduce] = {.fixed = 10 * ms};
  for (const Run& run : played(scenario, sizes.world())) {
    for (const Iteration& iteration : run.iterations()) CHECK(iteration.forward() == (6 * 20 + 2 * 10) * ms);
    // One bucket, at the end.
    CHECK(run.iterations().at(0).forward_backward() == (6 * 20 + 2 * 10 + 6 * 40 + 2 * 10 + 10) * ms);
  }
}

TEST_CASE("the engine's compressing hooks average parts among copies") {
  const Sizes sizes{2, 2};
  for (const HookKind kind : {HookKind::fp16_compress, HookKind::bf16_compress}) {
    Scenario scenario = pair(sizes, reduced);  // gradients of few bits
    scenario.script.segments.insert(scenario.script.segments.begin(),
                                    {1, {{.kind = ActionKind::register_hook, .hook = Hook{.kind = kind}}}});
    validate(scenario);
    const std::vector<Run> runs = played(scenario, sizes.world());
    check_sound(runs, sizes);
    for (const Run& run : runs) {
      for (const Iteration& iteration : run.iterations()) {
        for (const fact::Collective& collective : iteration.collectives()) {
          const bool is_low = collective.dtype == (kind == HookKind::fp16_compress ? DType::f16 : DType::bf16);
          CHECK(is_low == collective.tag.starts_with("bucket"));
        }
      }
    }
    if (kind == HookKind::fp16_compress) CHECK(differences(scenario, sizes, runs) == std::set<std::string>());
  }
}

// Each of these computes something else. So data of the copies is different enough, and values of each kind are
// compared.
TEST_CASE("reductions that are left out, or made among other ranks, give other values") {
  using Reduce = OtherwiseReducing::Reduce;
  const Sizes sizes{2, 2};
  const Scenario scenario = pairs(sizes);
  const auto& divided = replicate_plan(scenario.plan).tensor_parallel;
  const auto leaves_out = [&](const std::function<bool(const Collective&)>& left_out) {
    return differences(scenario, sizes, played_otherwise(scenario, sizes, [left_out](Communicator&, Device&) -> Reduce {
                         return [left_out](Communicator& group, Stream stream, const Collective& collective) {
                           if (!left_out(collective)) group.run(stream, collective);
                         };
                       }));
  };
  CHECK(leaves_out([](const Collective&) { return false; }).empty());

  // Among copies: every gradient is wrong.
  CHECK(leaves_out(is_of_bucket).size() == parameters(scenario.model).size());

  // Among parts, in forward and in backward.
  CHECK(leaves_out([](const Collective& collective) { return collective.tag == "fc2"; }).contains("loss"));
  const std::set<std::string> without_backward =
      leaves_out([](const Collective& collective) { return collective.tag == "fc1"; });
  CHECK(without_backward == std::set<std::string>{"stem.bias gradient", "stem.weight gradient"});

  // The mean over the whole world is right for what is whole, and wrong for parts.
  const auto over_world = [&](double factor) {
    return differences(
        scenario, sizes, played_otherwise(scenario, sizes, [factor](Communicator& world, Device& device) -> Reduce {
          return [&world, &device, factor](Communicator& group, Stream stream, const Collective& collective) {
            if (!is_of_bucket(collective)) return group.run(stream, collective);
            const Tensor values = collective.out;
            device.submit(stream, {.kind = WorkKind::other,
                                   .label = "scale",
                                   .reads = {values},
                                   .writes = {values},
                                   .run = [values, factor](const Kernels& kernels, NativeStream on) {
                                     kernels.scale(on, values, values, factor);
                                   }});
            world.run(stream, collective);
          };
        }));
  };
  const std::set<std::string> mixed = over_world(0.5);
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    CAPTURE(parameter.name);
    const std::string module = parameter.name.substr(0, parameter.name.rfind('.'));
    const bool is_part = divided.contains(module) && parameter.name != "fc2.bias";
    CHECK(mixed.contains(parameter.name + " gradient") == is_part);
  }
  // A sum over the world with the divisor of the copies is wrong for each.
  CHECK(over_world(1).size() == parameters(scenario.model).size());
}

TEST_CASE("a sum over parts that does not wait, or is not waited for, is a race") {
  const Sizes sizes{2, 2};
  for (const bool waits_itself : {false, true}) {
    std::vector<std::size_t> races(static_cast<std::size_t>(sizes.world()));
    on_thread_ranks(sizes.world(), [&](int rank, Group& group) {
      const auto subject = drop_waits(std::make_unique<engines::Reference>(), [waits_itself](const Wait& wait) {
        return (waits_itself ? wait.recorded_on : wait.stream) == StreamRole::other;
      });
      races[static_cast<std::size_t>(rank)] = play_simulated(pairs(sizes), *subject, group, rank).races().size();
    });
    CHECK(std::ranges::count(races, 0U) == 0);
  }
}

TEST_CASE("the module before a divided module must give the input that it needs") {
  using engines::check_divided_modules;
  const auto refusal = [](std::vector<Module> children, const engines::TensorParallelModules& divided) -> std::string {
    Model model;
    model.root.children = std::move(children);
    try {
      check_divided_modules(model, divided);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "none";
  };
  const auto column = TensorParallel::column, row = TensorParallel::row;
  const std::vector<Module> two{layer("a", 4, 4), activation("relu"), layer("b", 4, 4)};
  CHECK(refusal(two, {}) == "none");
  CHECK(refusal(two, {{"a", column}, {"b", row}}) == "none");
  CHECK(refusal(two, {{"b", row}}) ==
        "replicate: \"b\" is divided by rows and needs a part of the features on each rank, but \"a\" gives it all "
        "features: divide the linear module before it by columns");
  CHECK(refusal(two, {{"a", row}, {"b", row}}) ==
        "replicate: \"a\" is divided by rows and needs a part of the features on each rank, but the model's input "
        "gives it all features: divide the linear module before it by columns");
  CHECK(refusal(two, {{"a", column}}) ==
        "replicate: \"b\" needs all features, but \"a\" is divided by columns and leaves a part on each rank: "
        "divide a linear module between them by rows");
  CHECK(refusal(two, {{"a", column}, {"b", column}}) ==
        "replicate: \"b\" needs all features, but \"a\" is divided by columns and leaves a part on each rank: "
        "divide a linear module between them by rows");
  CHECK(refusal(two, {{"b", column}}) ==
        "replicate: the loss needs all features, but \"b\" is divided by columns and leaves a part on each rank: "
        "divide a linear module between them by rows");
  for (const ModuleKind kind :
       {ModuleKind::scale, ModuleKind::layer_norm, ModuleKind::attention, ModuleKind::embedding}) {
    const Module wide{.name = "x", .kind = kind, .features = 4};
    CHECK(refusal({layer("a", 4, 4), wide, layer("b", 4, 4)}, {{"a", column}, {"b", row}})
              .starts_with("replicate: \"x\" needs all features"));
    CHECK(refusal({wide, layer("a", 4, 4), layer("b", 4, 4)}, {{"a", column}, {"b", row}}) == "none");
  }
  CHECK(refusal({holder(ModuleKind::residual, "sum", {layer("a", 4, 4)}), layer("b", 4, 4)},
                {{"sum.a", column}, {"b", row}}) ==
        "replicate: \"sum\" joins a part of the features, from \"sum.a\", and all features, from the model's input: "
        "end each branch with a module that is divided by rows, or with an undivided one");
  CHECK(refusal({layer("a", 4, 4), holder(ModuleKind::residual, "sum", {activation("x")}), layer("b", 4, 4)},
                {{"a", column}, {"b", row}}) == "none");
  CHECK(refusal({holder(ModuleKind::choice, "way", {layer("a", 4, 4), layer("c", 4, 4)}), layer("b", 4, 4)},
                {{"way.a", column}, {"b", row}})
            .starts_with(
                "replicate: \"way\" joins a part of the features, from \"way.a\", and all features, from \"way.c\""));
}

TEST_CASE("every rank refuses modules that do not fit, before it communicates") {
  Scenario scenario = pair({2, 2});
  replicate_plan(scenario.plan).tensor_parallel.erase("fc1");
  std::vector<std::string> said(4);
  on_thread_ranks(4, [&](int rank, Group& group) {
    engines::Reference subject;
    try {
      play_simulated(scenario, subject, group, rank);
    } catch (const player::SubjectError& error) {
      said[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  for (const std::string& each : said)
    CHECK_THAT(each, Catch::Matchers::ContainsSubstring("\"fc2\" is divided by rows") &&
                         Catch::Matchers::ContainsSubstring("\"fc1\" gives it all features"));
}
