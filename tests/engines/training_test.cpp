// The fully sharded engine against values that PyTorch computed, on as many ranks as PyTorch used.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <optional>

#include "fixtures/engines/reference.hpp"
#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/golden.hpp"
#include "harness/player/player.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/player/simulated.hpp"

using namespace shardproof;
namespace golden = shardproof::oracles::golden;

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

Module relu(std::string name) { return {.name = std::move(name), .kind = ModuleKind::relu}; }

// The children and the root are wrapped, as fixtures/oracles/golden/README.md says.
Scenario recorded(std::vector<Module> children, const golden::Values& values) {
  Scenario scenario;
  scenario.model.root.children = std::move(children);
  for (const Module& child : scenario.model.root.children)
    fully_shard_plan(scenario.plan).wrap.push_back({.modules = {child.name}});
  fully_shard_plan(scenario.plan).wrap.push_back({.modules = {""}});
  scenario.script.input = values.input;
  scenario.script.segments = {{.iterations = static_cast<int>(values.iterations.size()),
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  if (values.optimizer == "adam") {
    scenario.plan.optimizer = {.kind = OptimizerKind::adamw, .rate = 1e-2};
  } else {
    scenario.plan.optimizer.rate = values.optimizer == "sgd_1/16" ? 0.0625 : values.optimizer == "sgd_0.1" ? 0.1 : 0.5;
  }
  return scenario;
}

Scenario exact(const golden::Values& values) {
  Scenario scenario = recorded({linear("l0", 4, 6), relu("relu"), linear("l1", 6, 3)}, values);
  scenario.model.init_divisor = scenario.script.input_divisor = 1;
  scenario.model.loss = {.kind = LossKind::dot};
  return scenario;
}

Scenario blocks(const golden::Values& values) {
  std::vector<Module> children;
  for (const char* name : {"0", "1", "2"}) {
    children.push_back({.name = name, .children = {linear("in_proj", 8, 32), relu("relu"), linear("out_proj", 32, 8)}});
  }
  Scenario scenario = recorded(std::move(children), values);
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 64};
  return scenario;
}

template <DType reduce> Scenario blocks_in_bf16(const golden::Values& values) {
  Scenario scenario = blocks(values);
  scenario.plan.mixed_precision = {.param = DType::bf16, .reduce = reduce, .output = {}};
  return scenario;
}

Scenario blocks_in_bf16_reduced_as_they_are(const golden::Values& values) {
  Scenario scenario = blocks_in_bf16<DType::f32>(values);
  scenario.plan.mixed_precision.reduce.reset();
  return scenario;
}

Scenario uneven(const golden::Values& values) {
  Scenario scenario =
      recorded({linear("l0", 5, 7), relu("relu0"), linear("l1", 7, 3), relu("relu1"), linear("l2", 3, 1)}, values);
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 8};
  return scenario;
}

Scenario tokens(const golden::Values& values) {
  const auto wide = [](ModuleKind kind, std::string name) {
    return Module{.name = std::move(name), .kind = kind, .features = 8};
  };
  Module embedding = wide(ModuleKind::embedding, "emb"), head = linear("head", 8, values.vocabulary);
  embedding.vocabulary = values.vocabulary;
  embedding.positions = values.input[1];
  head.bias = false;
  head.tied_to = "emb";
  Scenario scenario = recorded({}, values);
  scenario.model.root.children = {
      embedding,
      {.name = "mix",
       .kind = ModuleKind::residual,
       .children = {wide(ModuleKind::layer_norm, "ln1"), wide(ModuleKind::attention, "attention")}},
      {.name = "widen",
       .kind = ModuleKind::residual,
       .children = {wide(ModuleKind::layer_norm, "ln2"), linear("up", 8, 32), relu("relu"), linear("down", 32, 8)}},
      head};
  scenario.model.loss = {.kind = LossKind::cross_entropy};
  return scenario;
}

std::vector<Run> train(const Scenario& scenario, int world) {
  std::vector<std::optional<Run>> runs(static_cast<std::size_t>(world));
  on_thread_ranks(world, [&](int rank, Group& group) {
    engines::Reference subject;
    runs[static_cast<std::size_t>(rank)] = testing::play_simulated(scenario, subject, group, rank);
  });
  std::vector<Run> all;
  for (std::optional<Run>& run : runs) all.push_back(std::move(*run));
  return all;
}

void check_close(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (tolerance == 0) {
    CHECK(actual == expected);
    return;
  }
  REQUIRE(actual.shape() == expected.shape());
  CHECK(oracles::largest_difference(actual, expected) <= tolerance);
}

void check_against(const std::string& name, Scenario (*model)(const golden::Values&)) {
  CAPTURE(name);
  const golden::Values values = golden::values(name);
  const std::vector<Run> runs = train(model(values), values.world);
  std::size_t compared = 0;
  for (std::size_t rank = 0; rank < runs.size(); ++rank) {
    REQUIRE(runs[rank].captures().size() == values.iterations.size());
    CHECK(runs[rank].races().empty());
    for (std::size_t i = 0; i < values.iterations.size(); ++i) {
      const golden::Iteration& expected = values.iterations[i];
      const Capture& actual = runs[rank].captures()[i];
      CHECK(std::abs(actual.loss - expected.losses[rank]) <= expected.tolerance.loss);
      for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
        CAPTURE(rank, i, p);
        const CapturedParameter& held = actual.parameters[p];
        if (!values.shard_rows.empty()) REQUIRE(held.shard.shape()[0] == values.shard_rows[rank][p]);
        if (held.shard.numel() == 0) continue;
        check_close(held.gradient, expected.parameters[p].gradient.narrow(held.start, held.shard.shape()[0]),
                    expected.tolerance.gradient);
        check_close(held.shard, expected.parameters[p].after.narrow(held.start, held.shard.shape()[0]),
                    expected.tolerance.parameter);
        ++compared;
      }
    }
  }
  CHECK(compared > 0);
}

}  // namespace

TEST_CASE("exact values are PyTorch's at every world size that it ran") {
  for (const char* world : {"1", "2", "3", "4", "5", "7", "8"}) check_against(std::string("exact_W") + world, exact);
}

TEST_CASE("three blocks train as in PyTorch") {
  for (const char* optimizer : {"sgd", "adam"}) {
    for (const char* world : {"1", "2", "3", "4"})
      check_against(std::string("a_mlp_") + optimizer + "_W" + world, blocks);
  }
}

TEST_CASE("three blocks train in bf16 as in PyTorch") {
  check_against("c_bf16_reduce_bf16_W2", blocks_in_bf16<DType::bf16>);
  check_against("c_bf16_reduce_fp32_W2", blocks_in_bf16<DType::f32>);
  check_against("c_bf16_reduce_none_W2", blocks_in_bf16_reduced_as_they_are);
}

TEST_CASE("uneven layers train as in PyTorch") {
  for (const char* optimizer : {"sgd_0.1", "adam"}) {
    for (const char* world : {"1", "2", "3", "4"})
      check_against(std::string("b_uneven_") + optimizer + "_W" + world, uneven);
  }
}

TEST_CASE("attention over tokens, with a weight that is tied, trains as in PyTorch") {
  for (const char* world : {"1", "2"}) check_against(std::string("f_tiny_W") + world, tokens);
}
