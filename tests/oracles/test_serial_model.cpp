#include <cmath>

#include <catch2/catch_test_macros.hpp>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/golden.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/formula.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out, .children = {}};
}

Module relu(std::string name) { return {.name = std::move(name), .kind = ModuleKind::relu, .children = {}}; }

/// The scenario that a golden file's name stands for.
Scenario scenario_of(const std::string& name, const golden::Values& run) {
  Scenario scenario;
  std::vector<Module>& children = scenario.model.root.children;
  if (name.starts_with("exact")) {
    children = {linear("l0", 4, 6), relu("relu"), linear("l1", 6, 3)};
    scenario.model.loss = {LossKind::dot, 1, 7};
    scenario.model.init_divisor = scenario.script.input_divisor = 1;
  } else if (name.starts_with("a_mlp")) {
    for (const char* block : {"0", "1", "2"}) {
      children.push_back({.name = block, .children = {linear("in_proj", 8, 32), relu("relu"), linear("out_proj", 32, 8)}});
    }
    scenario.model.loss = {LossKind::sum_of_squares, run.loss_divisor, 0};
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
  scenario.script.segments = {
      {static_cast<int>(run.iterations.size()),
       {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::capture}, {ActionKind::zero_grad}}}};
  return scenario;
}

/// A tolerance of zero asks for the same bits.
void compare(const Tensor& actual, const Tensor& expected, double tolerance) {
  REQUIRE(actual.shape() == expected.shape());
  if (tolerance == 0) CHECK(actual == expected);
  else CHECK(largest_difference(actual, expected) <= tolerance);
}

/// Trains by every golden file of values and compares all that it has. Double precision rounds parameters elsewhere than fp32 does, so that
/// `least_parameter` widens a tolerance of zero there.
void check_against_golden(Arithmetic arithmetic, double least_parameter) {
  for (const std::string_view file : golden::names()) {
    if (file.starts_with("h_")) continue;
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
        CHECK(std::abs(loss - static_cast<double>(expected.losses[rank])) <= expected.tolerance.loss);
      }
      for (std::size_t j = 0; j < expected.parameters.size(); ++j) {
        INFO(name << ", iteration " << i << ", " << expected.parameters[j].name);
        CHECK(trained[i].parameters[j].name == expected.parameters[j].name);
        CHECK(trained[i].gradients[j].name == expected.parameters[j].name);
        compare(trained[i].gradients[j].tensor(), expected.parameters[j].gradient, expected.tolerance.gradient);
        compare(trained[i].parameters[j].tensor(), expected.parameters[j].after, std::max(expected.tolerance.parameter, least_parameter));
      }
    }
  }
}

/// One linear layer 1→1 without bias on one element, loss sum: the gradient is the input.
Scenario one_weight() {
  Scenario scenario;
  scenario.model.root.children = {linear("l", 1, 1)};
  scenario.model.root.children[0].bias = false;
  scenario.script.input = {1, 1};
  return scenario;
}

double input(int iteration, int rank) { return formula::small_integer(static_cast<std::uint32_t>(1000 + 100 * iteration + rank), 0) / 8.0; }

}  // namespace

TEST_CASE("serial training in f32 gives PyTorch's numbers, and its bits where the values are exact") {
  check_against_golden(Arithmetic::f32, 0);
}

TEST_CASE("serial training in double precision gives PyTorch's numbers") { check_against_golden(Arithmetic::f64, 1e-6); }

TEST_CASE("the formula is what the scenario says it is") {
  // The oracle has its own; both must be the one of golden/README.md.
  Scenario scenario;
  scenario.model.root.children = {linear("a", 3, 2), linear("b", 2, 4)};
  scenario.script.input = {1, 3};
  scenario.script.segments = {{1, {{ActionKind::capture}}}};
  const SerialIteration start = train_serially(scenario, 1, Arithmetic::f64).at(0);
  REQUIRE(start.parameters.size() == 4);
  for (std::size_t j = 0; j < 4; ++j) {
    const NamedValues& parameter = start.parameters[j];
    for (std::size_t i = 0; i < parameter.values.size(); ++i) {
      CHECK(parameter.values[i] == formula::small_integer(static_cast<std::uint32_t>(1 + j), static_cast<std::uint32_t>(i)) / 8.0);
    }
  }
  CHECK(start.parameters[2].name == "b.weight");
  CHECK(start.parameters[2].shape == Shape{4, 2});
  CHECK(start.gradients.empty());
}

TEST_CASE("gradients are means over ranks and accumulate until zero_grad") {
  Scenario scenario = one_weight();
  const std::vector<Action> accumulate = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}};
  std::vector<Action> drop = accumulate;
  drop.push_back({ActionKind::zero_grad});
  drop.push_back({ActionKind::capture});
  scenario.script.segments = {{1, accumulate}, {1, drop}};
  const std::vector<SerialIteration> trained = train_serially(scenario, 3, Arithmetic::f64);
  REQUIRE(trained.size() == 3);
  const auto mean = [](int iteration) { return (input(iteration, 0) + input(iteration, 1) + input(iteration, 2)) / 3; };
  CHECK(trained[0].gradients.at(0).values == std::vector<double>{mean(0)});
  CHECK(trained[1].gradients.at(0).values == std::vector<double>{mean(0) + mean(1)});
  CHECK(trained[2].gradients.empty());
  CHECK(trained[1].parameters.at(0).values == trained[0].parameters.at(0).values);  // no step, no move
}

TEST_CASE("f32 arithmetic divides the sum, not the summands") {
  Scenario scenario = one_weight();
  scenario.script.segments = {{1, {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}}};
  for (const int world : {3, 5, 7}) {
    float sum = 0;
    for (int rank = 0; rank < world; ++rank) sum += static_cast<float>(input(0, rank));
    const SerialIteration trained = train_serially(scenario, world, Arithmetic::f32).at(0);
    CHECK(trained.gradients.at(0).values.at(0) == static_cast<double>(sum / static_cast<float>(world)));
  }
}

TEST_CASE("the losses: sum, squares over the divisor, dot with the row of its seed") {
  Scenario scenario = one_weight();
  scenario.script.segments = {{1, {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}}};
  const double weight = formula::small_integer(1, 0) / 8.0;
  const auto trained = [&](Loss loss) {
    scenario.model.loss = loss;
    return train_serially(scenario, 2, Arithmetic::f64).at(0);
  };
  CHECK(trained({LossKind::sum, 1, 0}).losses == std::vector<double>{weight * input(0, 0), weight * input(0, 1)});
  const SerialIteration squares = trained({LossKind::sum_of_squares, 4, 0});
  CHECK(squares.losses[1] == weight * input(0, 1) * weight * input(0, 1) / 4);
  CHECK(squares.gradients.at(0).values[0] == weight * (input(0, 0) * input(0, 0) + input(0, 1) * input(0, 1)) / 4);
  const double row = formula::small_integer(9, 0) / 2.0;
  CHECK(trained({LossKind::dot, 2, 9}).losses[0] == weight * input(0, 0) * row);
}

TEST_CASE("decay is decoupled in the serial model's AdamW") {
  Scenario scenario = one_weight();
  scenario.plan.optimizer = {.kind = OptimizerKind::adamw, .rate = 0.5, .weight_decay = 0.25};
  scenario.script.segments = {{1, {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::capture}}}};
  const double weight = formula::small_integer(1, 0) / 8.0, slope = input(0, 0);
  REQUIRE(slope != 0);
  const double stepped = weight * (1 - 0.5 * 0.25) - 0.5 * (slope > 0 ? 1 : -1);  // the first step of Adam is the rate
  CHECK(std::abs(train_serially(scenario, 1, Arithmetic::f64).at(0).parameters.at(0).values[0] - stepped) < 1e-6);
}
