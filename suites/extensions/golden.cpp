// Three blocks in bf16, against the bits that PyTorch computed.
#include <cmath>
#include <string>

#include "fixtures/oracles/golden.hpp"
#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/precision_scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

Module layer_of(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

// As the group c of fixtures/oracles/golden/README.md was recorded.
Scenario recorded_in_bf16(const oracles::golden::Values& values, const MixedPrecision& policy, bool reshard) {
  using Kind = ReshardAfterForward::Kind;
  const ReshardAfterForward after{reshard ? Kind::yes : Kind::no};
  Scenario scenario;
  for (const char* name : {"0", "1", "2"}) {
    scenario.model.root.children.push_back(
        {.name = name,
         .children = {
             layer_of("in_proj", 8, 32), {.name = "relu", .kind = ModuleKind::relu}, layer_of("out_proj", 32, 8)}});
    fully_shard_plan(scenario.plan).wrap.push_back({{name}, after});
  }
  fully_shard_plan(scenario.plan).wrap.push_back({{""}, after});
  scenario.plan.mixed_precision = policy;
  scenario.plan.optimizer = {.rate = 0.5};
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = values.loss_divisor};
  scenario.script.input = values.input;
  // The third iteration diverges: a last bit of it would be as large as a value.
  scenario.script.segments = {{.iterations = 2,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("extensions/bits_of_pytorch_in_bf16", clauses("EXT-41"), ranks(2),
                 each("reduce", "none", "f32", "bf16"), each("reshard", false, true), needs(Feature::mixed_precision),
                 tags("reference")) {
  const std::string& reduce = rank.param("reduce");
  const auto values = oracles::golden::values("c_bf16_reduce_" + (reduce == "f32" ? "fp32" : reduce) + "_W2");
  const MixedPrecision policy{.param = DType::bf16, .reduce = dtype_named(reduce)};
  const Run run = play(rank, recorded_in_bf16(values, policy, rank.param<bool>("reshard")));
  REQUIRE(run.captures().size() == 2);
  const auto serial = oracles::train_serially(run.scenario(), 2, oracles::Arithmetic::f32);
  INFO(serial.back().order_shows);
  REQUIRE(serial.back().order_shows.empty());
  for (std::size_t i = 0; i < 2; ++i) {
    const oracles::golden::Iteration& expected = values.iterations.at(i);
    const Capture& actual = run.captures()[i];
    const auto index = static_cast<std::size_t>(rank.index());
    const double loss_difference = std::abs(actual.loss - static_cast<double>(expected.losses.at(index)));
    CHECK(loss_difference <= 2 * serial.at(i).loss_errors.at(index));
    REQUIRE(actual.parameters.size() == expected.parameters.size());
    for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
      const CapturedParameter& held = actual.parameters[p];
      CAPTURE(i, held.name);
      const std::int64_t rows = held.shape[0] / 2;
      REQUIRE(held.shard.shape()[0] == rows);
      CHECK(held.gradient == expected.parameters[p].gradient.narrow(rank.index() * rows, rows));
      CHECK(held.shard == expected.parameters[p].after.narrow(rank.index() * rows, rows));
    }
  }
  check_sound(rank, run);
}

}  // namespace shardproof::extensions
