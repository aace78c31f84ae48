#include <cmath>

#include <catch2/catch_test_macros.hpp>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/golden.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/oracles/scenarios.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;

namespace {

bool has_values(std::string_view file) {
  return file.starts_with("exact") || file.starts_with("a_mlp") || file.starts_with("b_uneven") ||
         file.starts_with("c_bf16") || file.starts_with("e_fsdp1") || file.starts_with("f_tiny");
}

/// The golden file's pos and emb.weight, ln1, wq, wk, wv, wo, ln2, up and down, under the names that a scenario has for
/// them.
std::vector<Module> small_language_model() {
  Module head = linear("head", 8, 16, false);
  head.tied_to = "emb";
  return {embedding("emb", 16, 8, 4), residual("attend", {layer_norm("ln", 8), attention("mix", 8)}),
          residual("feed", {layer_norm("ln", 8), linear("up", 8, 32), relu("relu"), linear("down", 32, 8)}), head};
}

/// Each child and the root a group of its own; the file's name says what gradients are reduced in.
Plan in_bf16(const std::string& name, const std::vector<Module>& children) {
  Plan plan;
  for (const Module& child : children)
    fully_shard_plan(plan).wrap.push_back({.modules = {child.name}, .forward_prefetch = {}, .backward_prefetch = {}});
  fully_shard_plan(plan).wrap.push_back({.modules = {""}, .forward_prefetch = {}, .backward_prefetch = {}});
  plan.mixed_precision.param = DType::bf16;
  if (name.starts_with("c_bf16_reduce_bf16")) plan.mixed_precision.reduce = DType::bf16;
  if (name.starts_with("c_bf16_reduce_fp32")) plan.mixed_precision.reduce = DType::f32;
  return plan;
}

/// The scenario that the name of a golden file means.
Scenario scenario_of(const std::string& name, const golden::Values& run) {
  Scenario scenario = sharded({});
  std::vector<Module>& children = scenario.model.root.children;
  if (name.starts_with("exact")) {
    children = {linear("l0", 4, 6), relu("relu"), linear("l1", 6, 3)};
    scenario.model.loss = {LossKind::dot, 1, 7};
    scenario.model.init_divisor = scenario.script.input_divisor = 1;
  } else if (name.starts_with("a_mlp") || name.starts_with("c_bf16")) {
    for (const char* block : {"0", "1", "2"}) {
      children.push_back(
          {.name = block, .children = {linear("in_proj", 8, 32), relu("relu"), linear("out_proj", 32, 8)}});
    }
    scenario.model.loss = {LossKind::sum_of_squares, run.loss_divisor, 0};
    if (name.starts_with("c_bf16")) scenario.plan = in_bf16(name, children);
  } else if (name.starts_with("e_fsdp1")) {
    children = {{.name = "net", .children = {linear("0", 8, 16), relu("1"), linear("2", 16, 8)}},
                relu("relu"),
                linear("out", 8, 4)};
    scenario.model.loss = {LossKind::sum_of_squares, run.loss_divisor, 0};
    scenario.plan.engine = ChosenEngine();
    flat_shard_plan(scenario.plan).wrap = {"net", ""};
    flat_shard_plan(scenario.plan).use_orig_params = true;
  } else if (name.starts_with("f_tiny")) {
    children = small_language_model();
    scenario.model.loss = {.kind = LossKind::cross_entropy};
  } else {
    children = {linear("l0", 5, 7), relu("relu0"), linear("l1", 7, 3), relu("relu1"), linear("l2", 3, 1)};
    scenario.model.loss = {LossKind::sum_of_squares, run.loss_divisor, 0};
  }
  if (run.optimizer == "adam") scenario.plan.optimizer = {.kind = OptimizerKind::adamw, .rate = 1e-2};
  else
    scenario.plan.optimizer = {.kind = OptimizerKind::sgd,
                               .rate = run.optimizer == "sgd_1/16"  ? 0.0625
                                       : run.optimizer == "sgd_0.1" ? 0.1
                                                                    : 0.5};
  scenario.script.input = run.input;
  scenario.script.segments = {{static_cast<int>(run.iterations.size()),
                               {{ActionKind::forward},
                                {ActionKind::backward},
                                {ActionKind::step},
                                {ActionKind::capture},
                                {ActionKind::zero_grad}}}};
  return scenario;
}

/// A tolerance of zero asks for the same bits.
void compare(const Tensor& actual, const Tensor& expected, double tolerance) {
  REQUIRE(actual.shape() == expected.shape());
  if (tolerance == 0) CHECK(actual == expected);
  else CHECK(largest_difference(actual, expected) <= tolerance);
}

/// Trains by every golden file of such values and compares all that it has. Double precision rounds parameters and
/// losses elsewhere than fp32 does, so that `least_parameter` and `least_loss` widen a tolerance of zero there.
void check_against_golden(Arithmetic arithmetic, double least_parameter, double least_loss) {
  for (const std::string_view file : golden::names()) {
    if (!has_values(file)) continue;
    const std::string name(file);
    const golden::Values run = golden::values(name);
    const std::vector<SerialIteration> trained = train_serially(scenario_of(name, run), run.world, arithmetic);
    REQUIRE(trained.size() == run.iterations.size());
    for (std::size_t i = 0; i < trained.size(); ++i) {
      const golden::Iteration& expected = run.iterations[i];
      REQUIRE(trained[i].losses.size() == expected.losses.size());
      for (std::size_t rank = 0; rank < expected.losses.size(); ++rank) {
        INFO(name << ", iteration " << i << ", loss of rank " << rank);
        const double loss = static_cast<float>(trained[i].losses[rank]);
        CHECK(std::abs(loss - static_cast<double>(expected.losses[rank])) <=
              (expected.tolerance.loss > 0 ? expected.tolerance.loss : least_loss));
      }
      for (std::size_t j = 0; j < expected.parameters.size(); ++j) {
        INFO(name << ", iteration " << i << ", " << expected.parameters[j].name);
        if (!name.starts_with("f_tiny")) {
          CHECK(trained[i].parameters[j].name == expected.parameters[j].name);
          CHECK(trained[i].gradients[j].name == expected.parameters[j].name);
        }
        compare(trained[i].gradients[j].tensor(), expected.parameters[j].gradient, expected.tolerance.gradient);
        compare(trained[i].parameters[j].tensor(), expected.parameters[j].after,
                std::max(expected.tolerance.parameter, least_parameter));
      }
    }
  }
}

}  // namespace

TEST_CASE("serial training in f32 gives PyTorch's numbers, and its bits where the values are exact") {
  check_against_golden(Arithmetic::f32, 0, 0);
}

TEST_CASE("serial training in double precision gives PyTorch's numbers") {
  check_against_golden(Arithmetic::f64, 1e-6, 2.4e-7);
}
