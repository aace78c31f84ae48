// The inputs and outputs of wrapped modules under a plan with dtypes.
#include <algorithm>
#include <string>

#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/precision_scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

// bf16 has 8 bits: of 256 and 257 it knows only the first. The weights are -1 and -1.
struct Activation {
  const char* name;
  MixedPrecision policy;
  std::vector<double> input;
  double loss;
  std::vector<double> gradient;  // of each row: what the layer was given
};

const std::vector<Activation>& activations() {
  static const std::vector<Activation> all{
      {"input", {.param = DType::bf16}, {-257, 256}, 0, {-256, 256}},
      {"input_given_out_wide", {.param = DType::bf16, .output = DType::f32}, {-257, 1}, 255, {-256, 1}},
      {"output", {.output = DType::bf16}, {-257, 0}, 256, {-257, 0}},
      {"nothing", {}, {-257, 256}, 1, {-257, 256}},
      {"nothing_to_cast", {.param = DType::f32, .cast_forward_inputs = false}, {-257, 256}, 1, {-257, 256}}};
  return all;
}

Module square(std::string name) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = 3, .out_features = 3};
}

// Inputs of nine bits, one more than bf16 has, and weights of few: all that is computed in f32 is exact, and every
// rounding shows.
Scenario of_nine_bits(std::vector<Module> children, std::vector<WrapGroup> wrap, const MixedPrecision& policy,
                      int world) {
  Scenario scenario;
  scenario.model.root.children = std::move(children);
  scenario.model.loss = {.kind = LossKind::dot};
  fully_shard_plan(scenario.plan).wrap = std::move(wrap);
  scenario.plan.optimizer = {.rate = 0.0625};
  scenario.plan.mixed_precision = policy;
  scenario.script.input = {2, 3};
  scenario.script.given.emplace_back();
  for (int rank = 0; rank < world; ++rank) {
    std::vector<double>& values = scenario.script.given.front().emplace_back();
    for (int i = 0; i < 6; ++i) values.push_back((i % 2 == 0 ? 1 : -1) * (257 + 14 * i + 6 * rank) / 32.0);
  }
  scenario.script.segments = {{.body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  return scenario;
}

// Fails unless modules compute with the parameter in this dtype. The size of its first whole memory shows the dtype.
// That memory may end in the padding of the last shard.
void check_computed_in(DType dtype, const Run& run, const ParameterShape& parameter, int world) {
  CAPTURE(parameter.name);
  Shape padded = parameter.shape;
  padded[0] = (padded[0] + world - 1) / world * world;
  std::uint64_t bytes = 0;
  for (const Fact& fact : run.trace().facts) {
    const auto* made = std::get_if<fact::Allocated>(&fact);
    const bool is_it = made != nullptr && made->memory == MemoryClass::parameter && made->label == parameter.name;
    if (is_it && bytes == 0) bytes = made->bytes;
  }
  CHECK(bytes >= static_cast<std::uint64_t>(numel(parameter.shape)) * size_of(dtype));
  CHECK(bytes <= static_cast<std::uint64_t>(numel(padded)) * size_of(dtype));
}

}  // namespace

RANKED_TEST_CASE("extensions/casts_by_hand", clauses("EXT-23"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("cast", "input", "input_given_out_wide", "output", "nothing", "nothing_to_cast"),
                 needs(Feature::mixed_precision)) {
  for (const Activation& activation : activations()) {
    if (activation.name != rank.param("cast")) continue;
    const Run run =
        play_accepted(rank, one_layer({.in = 2, .out = 1, .given = {{activation.input}}, .policy = activation.policy}));
    REQUIRE(run.captures().size() == 1);
    CHECK(run.captures().front().loss == activation.loss);
    const CapturedParameter& held = run.captures().front().parameters.at(0);
    if (held.shard.numel() > 0) CHECK(held.gradient.to_doubles() == activation.gradient);
  }
}

RANKED_TEST_CASE("extensions/casts_around_modules", clauses("EXT-23"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("wrap", "nested", "some"), needs(Feature::timeline, Feature::mixed_precision)) {
  const bool nested = rank.param("wrap") == "nested";
  const Module inner{.name = "inner",
                     .children = {square("a"), {.name = "relu", .kind = ModuleKind::relu}, square("b")}};
  Scenario scenario;
  if (nested) {
    // A module that is wrapped within a wrapped module gets and returns the dtype in which the outer one computes.
    scenario = of_nine_bits({square("before"), inner, square("after")},
                            {{.modules = {"inner.b"}}, {.modules = {"inner"}}, {.modules = {""}}},
                            {.param = DType::bf16}, rank.world().size());
  } else {
    // A wrapped module between unwrapped modules, which compute in f32 and get f32.
    scenario = of_nine_bits({square("before"), inner, square("after")}, {{.modules = {"inner"}}},
                            {.param = DType::bf16, .output = DType::f32}, rank.world().size());
  }
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {});
  check_sound(rank, run);
  const auto all = parameters(run.scenario().model);
  for (const ParameterShape& parameter : all) {
    const bool low = nested || parameter.name.starts_with("inner");
    check_computed_in(low ? DType::bf16 : DType::f32, run, parameter, rank.world().size());
  }
}

// Around each module of a group, also the second one, the engine casts inputs to the dtype of the computation, and
// outputs to the policy's dtype. A residual adds in f32, and its sum has one bit more than bf16.
RANKED_TEST_CASE("extensions/casts_around_a_group", clauses("EXT-23", "EXT-24"), ranks(1, 2, 3, 4),
                 each("first", "added", "last"),
                 needs(Feature::timeline, Feature::mixed_precision, Feature::module_groups)) {
  std::vector<std::string> group{"sum.added", "last"};
  if (rank.param("first") == "last") std::ranges::reverse(group);
  const Module sum{.name = "sum", .kind = ModuleKind::residual, .children = {square("added")}};
  const Scenario scenario = of_nine_bits({square("begin"), sum, square("last")},
                                         {{.modules = {"begin"}}, {.modules = std::move(group)}, {.modules = {""}}},
                                         {.param = DType::bf16, .output = DType::f32}, rank.world().size());
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {});
  check_sound(rank, run);
}

RANKED_TEST_CASE("extensions/uncast_input", clauses("EXT-23"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 needs(Feature::mixed_precision)) {
  // Inputs are f32, and no cast converts them to the dtype of the weights.
  const MixedPrecision policy{.param = DType::bf16, .cast_forward_inputs = false};
  Scenario scenario = of_nine_bits({square("layer")}, {{.modules = {""}}}, policy, rank.world().size());
  check_refused(rank, scenario, "forward", {"layer"});
  scenario.plan.mixed_precision.cast_forward_inputs = true;
  CHECK_FALSE(refusal(rank, scenario));
}

RANKED_TEST_CASE("extensions/precision_of_language_model", clauses("EXT-20", "EXT-23", "EXT-24"), ranks(1, 2, 3, 4),
                 more_ranks(5, 7, 8),
                 needs(Feature::timeline, Feature::mixed_precision, Feature::language_model,
                       Feature::shared_parameters)) {
  // The model has more tokens than bf16 can distinguish. Kernels round scores, exponentials and roots in their own
  // ways; in bf16 this is about one part in 256.
  Scenario scenario;
  Module head{.name = "head",
              .kind = ModuleKind::linear,
              .in_features = 4,
              .out_features = 600,
              .bias = false,
              .tied_to = "emb"};
  scenario.model.root.children = {
      {.name = "emb", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 600, .positions = 4},
      {.name = "attend",
       .kind = ModuleKind::residual,
       .children = {{.name = "ln", .kind = ModuleKind::layer_norm, .features = 4},
                    {.name = "mix", .kind = ModuleKind::attention, .features = 4}}},
      std::move(head)};
  scenario.model.loss = {.kind = LossKind::cross_entropy};
  fully_shard_plan(scenario.plan).wrap = {{.modules = {"attend"}}, {.modules = {""}}};
  scenario.plan.mixed_precision = {.param = DType::bf16};
  scenario.plan.optimizer = {.rate = 0.125};
  scenario.script.input = {2, 4};
  scenario.script.segments = {{.iterations = 2,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {.loss = 1e-3, .gradient = 1e-3, .parameter = 1.25e-4},
                 Moves::some_parameter);
  check_sound(rank, run);
  const auto judged = rank.under("EXT-20");
  for (const char* parameter : {"emb.weight", "emb.positions", "attend.ln.weight", "attend.mix.query"}) {
    const auto all = parameters(run.scenario().model);
    const auto named = std::ranges::find(all, parameter, &ParameterShape::name);
    REQUIRE(named != all.end());
    check_computed_in(DType::bf16, run, *named, rank.world().size());
  }
}

}  // namespace shardproof::extensions
