// Parameters that are pairs, all-gather extensions and meta initialisation in the serial model, by hand.
#include <cmath>

#include <catch2/catch_test_macros.hpp>

#include "fixtures/oracles/rounding.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/oracles/scenarios.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;

namespace {

using Values = std::vector<double>;

/// The initial value, by its tensor's seed, of the one weight that plays a part.
double initial(std::uint32_t seed) { return formula::small_integer(seed, 5) / 7.0; }

/// An input that picks it.
Values picked(double x) { return {0, 0, 0, 0, 0, x}; }

Action extend(Extension extension) { return {.kind = ActionKind::extend, .extension = std::move(extension)}; }

/// One row of six weights, of the kind, of which the input picks the last; parameters are sevenths of small integers.
Scenario one_weight_of(TensorKind kind) {
  Module layer = linear("l", 6, 1, false);
  layer.tensor = kind;
  Scenario scenario = sharded({layer});
  scenario.model.init_divisor = 7;
  scenario.script.input = {1, 6};
  scenario.script.given = {{picked(1)}};
  return scenario;
}

/// The weight that the layer computes with: its output for an input of 1.
double seen(Scenario scenario, std::vector<Action> before = {}) {
  before.insert(before.end(), {forward, capture});
  scenario.script.segments = script({before});
  return train_serially(scenario, 1, Arithmetic::f64).at(0).losses.at(0);
}

}  // namespace

TEST_CASE("a pair is the first tensor and twice the second, and a step moves both by the weight's gradient") {
  Scenario scenario = one_weight_of(TensorKind::two_tensor);
  scenario.script.segments = script({{capture, forward, backward, step, capture}});
  const auto trained = train_serially(scenario, 2, Arithmetic::f64);
  const double first = initial(1), second = initial(501);
  CHECK(trained[0].parameters[0].values.at(5) == first);
  CHECK(trained[0].seconds[0].values.at(5) == second);
  CHECK(trained[0].seconds[0].name == "l.weight");
  CHECK(trained[1].losses == Values{first + 2 * second, first + 2 * second});
  CHECK(trained[1].gradients[0].values == picked(1));
  CHECK(trained[1].parameters[0].values.at(5) == first - 0.5);
  CHECK(trained[1].seconds[0].values.at(5) == second - 0.5);
  CHECK(seen(scenario, {extend({.tensor = TensorKind::two_tensor})}) == first + 2 * second);

  scenario.plan.mixed_precision.param = DType::bf16;
  CHECK(seen(scenario) == bf16(first + 2 * second));
  REQUIRE(bf16(first + 2 * second) != bf16(bf16(first) + 2 * bf16(second)));
}

TEST_CASE("each tensor of a pair has its own decay and moments") {
  Scenario scenario = one_weight_of(TensorKind::two_tensor);
  scenario.plan.optimizer = {.kind = OptimizerKind::adamw, .rate = 0.5, .weight_decay = 0.25};
  scenario.script.segments = script({{forward, backward, step, capture}});
  const SerialIteration trained = train_serially(scenario, 1, Arithmetic::f64).at(0);
  CHECK(std::abs(trained.parameters[0].values.at(5) - (initial(1) * (1 - 0.125) - 0.5)) < 1e-6);
  CHECK(std::abs(trained.seconds[0].values.at(5) - (initial(501) * (1 - 0.125) - 0.5)) < 1e-6);
}

TEST_CASE("only pairs have a second tensor, and each rank keeps its own pair where no group wraps it") {
  Scenario scenario = one_weight_of(TensorKind::low_precision);
  scenario.script.segments = script({{forward, backward, step, capture}});
  CHECK_FALSE(train_serially(scenario, 1, Arithmetic::f64).at(0).seconds[0].defined());
  scenario = one_weight_of(TensorKind::two_tensor);
  fully_shard_plan(scenario.plan).ignored_parameters = {"l.weight"};
  scenario.plan.mixed_precision.param = DType::f32;
  scenario.script.given = {{picked(1), picked(2)}};
  scenario.script.segments = script({{forward, backward, step, capture}});
  const SerialIteration trained = train_serially(scenario, 2, Arithmetic::f64).at(0);
  for (std::size_t rank = 0; rank < 2; ++rank)
    CHECK(trained.seconds[0].local.at(rank).at(5) == initial(501) - (rank == 0 ? 0.5 : 1));
}

TEST_CASE("extensions: what layers see of a parameter that is gathered so") {
  Scenario scenario = one_weight_of(TensorKind::plain);
  const auto by = [&](ExtensionKind kind) { return seen(scenario, {extend({.parameter = "l.weight", .kind = kind})}); };
  const double weight = initial(1);
  REQUIRE(std::trunc(16 * weight) != 16 * weight);
  CHECK(seen(scenario) == weight);
  CHECK(by(ExtensionKind::components) == weight);
  CHECK(by(ExtensionKind::unpadded) == weight);
  CHECK(by(ExtensionKind::truncated) == weight);
  CHECK(by(ExtensionKind::bf16) == bf16(weight));
  CHECK(by(ExtensionKind::int8) == std::trunc(16 * weight) / 16);
  scenario.plan.mixed_precision.param = DType::f16;
  CHECK(by(ExtensionKind::bf16) == rounded_to(DType::f16, bf16(weight)));
  CHECK(by(ExtensionKind::components) == rounded_to(DType::f16, weight));
  fully_shard_plan(scenario.plan).wrap[0].modules = {"elsewhere"};  // nobody gathers it
  CHECK(by(ExtensionKind::int8) == weight);
}

TEST_CASE("eight bits saturate, and gradients go past them") {
  Scenario scenario = one_weight_of(TensorKind::low_precision);
  scenario.plan.optimizer.rate = 1;
  const Extension extension{.tensor = TensorKind::low_precision, .kind = ExtensionKind::int8};
  for (const auto& [gradient, expected] : {std::pair(-100.0, 127 / 16.0), {100.0, -8.0}}) {
    scenario.script.given = {{picked(gradient)}, {picked(1)}};
    scenario.script.segments = script({{extend(extension), forward, backward, step, capture}, {forward, capture}});
    const auto trained = train_serially(scenario, 1, Arithmetic::f32);
    CHECK(trained[0].gradients[0].values == picked(gradient));
    CHECK(trained[1].losses == Values{expected});
  }
}

TEST_CASE("an extension for a parameter goes before one for its kind, whichever comes first") {
  const Scenario scenario = one_weight_of(TensorKind::low_precision);
  const Action own = extend({.parameter = "l.weight", .kind = ExtensionKind::bf16});
  const Action of_kind = extend({.tensor = TensorKind::low_precision, .kind = ExtensionKind::int8});
  const Action of_pairs = extend({.tensor = TensorKind::two_tensor});
  const double weight = initial(1);
  CHECK(seen(scenario, {of_kind}) == std::trunc(16 * weight) / 16);
  CHECK(seen(scenario, {own, of_kind}) == bf16(weight));
  CHECK(seen(scenario, {of_kind, own, of_pairs}) == bf16(weight));
  CHECK(seen(scenario, {of_pairs}) == weight);
}

TEST_CASE("what begins on meta has the same values once it has any") {
  Scenario scenario = one_weight_of(TensorKind::plain);
  scenario.plan.initialisation = Initialisation::meta;
  CHECK(seen(scenario, {{.kind = ActionKind::materialize}, {.kind = ActionKind::initialize}}) == initial(1));
}
