#include "suites/extensions/precision_scenarios.hpp"

#include <utility>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/fabric/group.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/clauses.hpp"
#include "suites/checks/comparison.hpp"

namespace shardproof::extensions {

std::optional<DType> dtype_named(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    if (name == to_string(dtype)) return dtype;
  }
  return std::nullopt;
}

MixedPrecision policy_of(const Rank& rank) {
  return {.param = dtype_named(rank.param("param")), .reduce = dtype_named(rank.param("reduce"))};
}

Scenario uneven_layers(const MixedPrecision& policy, bool reshard, int iterations) {
  using Kind = ReshardAfterForward::Kind;
  const ReshardAfterForward after{reshard ? Kind::yes : Kind::no};
  Scenario scenario;
  scenario.model.root.children = {{.name = "l0", .kind = ModuleKind::linear, .in_features = 4, .out_features = 7},
                                  {.name = "relu", .kind = ModuleKind::relu},
                                  {.name = "l1", .kind = ModuleKind::linear, .in_features = 7, .out_features = 5}};
  scenario.model.loss = {.kind = LossKind::dot};
  fully_shard_plan(scenario.plan).wrap = {{{"l0"}, after}, {{"l1"}, after}, {{""}, after}};
  scenario.plan.optimizer = {.rate = 0.0625};
  scenario.plan.mixed_precision = policy;
  scenario.script.input = {2, 4};
  scenario.script.segments = {{.iterations = iterations,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::capture},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  return scenario;
}

Scenario one_layer(const OneLayer& how) {
  Scenario scenario;
  scenario.model.root.children = {
      {.name = "l", .kind = ModuleKind::linear, .in_features = how.in, .out_features = how.out, .bias = false}};
  scenario.model.init_divisor = 1;
  fully_shard_plan(scenario.plan).wrap = {{.modules = {""}}};
  scenario.plan.optimizer = {.rate = 1};
  scenario.plan.mixed_precision = how.policy;
  scenario.script.input = {how.batch, how.in};
  scenario.script.given = how.given;
  for (std::size_t i = 0; i < how.given.size(); ++i) {
    scenario.script.segments.push_back({.body = {{ActionKind::forward}, {ActionKind::backward}}});
  }
  scenario.script.segments.back().body.push_back({ActionKind::capture});
  return scenario;
}

double gradient_of_one_layer(Rank& rank, const Run& run) {
  const auto judged = suites::judging(rank, suites::Finding::values);
  const auto expected = oracles::train_serially(run.scenario(), rank.world().size(), oracles::Arithmetic::f32);
  REQUIRE(run.captures().size() == expected.size());
  suites::require_exact_sums(run.scenario(), rank.world().size());
  const CapturedParameter& held = run.captures().back().parameters.at(0);
  const oracles::NamedValues& whole = expected.back().gradients.at(0);
  REQUIRE(whole.defined());
  if (held.shard.numel() == 0) return whole.values.front();
  REQUIRE(held.gradient.defined());
  const std::vector<double> mine = held.gradient.to_doubles();
  for (const double value : mine) CHECK(value == whole.values.front());
  return mine.front();
}

void check_kept_in_single_precision(const Rank& rank, const Run& run) {
  const auto judged = rank.under("EXT-22");
  std::size_t gradients = 0;
  for (const Capture& captured : run.captures()) {
    for (const CapturedParameter& held : captured.parameters) {
      CAPTURE(held.name);
      CHECK(held.shard.dtype() == DType::f32);
      if (!held.gradient.defined()) continue;
      CHECK(held.gradient.dtype() == DType::f32);
      ++gradients;
    }
  }
  CHECK(gradients > 0);
}

Mesh replicated(int replicas, int world) {
  return {.shape = {replicas, world / replicas}, .names = {"replicate", "shard"}};
}

}  // namespace shardproof::extensions
