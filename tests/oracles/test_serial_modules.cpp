// The modules of the serial model: small ones by hand, and the slope of every parameter along its own gradient, by
// central differences.
#include <cmath>

#include <catch2/catch_test_macros.hpp>

#include "tests/oracles/scenarios.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;

namespace {

using Values = std::vector<double>;

SerialIteration once(Scenario scenario) {
  scenario.script.segments = script({{forward, backward, capture}});
  return train_serially(scenario, 1, Arithmetic::f64).at(0);
}

/// The loss after one step of gradient descent by this rate.
double loss_after(Scenario scenario, double rate) {
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = rate};
  const Action again{.kind = ActionKind::evaluate};
  scenario.script.segments = {{1, {forward, backward, step, again, capture}}};
  return train_serially(scenario, 1, Arithmetic::f64).at(0).losses.at(0);
}

void freeze_all_but(Module& module, const std::string& path, const std::string& here) {
  module.frozen = module.children.empty() && here != path;
  for (Module& child : module.children) freeze_all_but(child, path, child_path(here, child.name));
}

/// Descending along the gradient g of one module by a small rate r changes the loss by -r |g|². A gradient of the wrong
/// length or direction would not: |g|² comes from the gradient, the change from the forward alone.
void check_slopes(const Scenario& scenario) {
  for (const std::string& path : paths(scenario.model)) {
    CAPTURE(path);
    Scenario alone = scenario;
    freeze_all_but(alone.model.root, path, "");
    double squares = 0;
    for (const NamedValues& gradient : once(alone).gradients) {
      for (const double value : gradient.values) squares += value * value;
    }
    if (!find(alone.model, path)->children.empty() || squares == 0) continue;
    const double rate = 1e-4 / std::sqrt(squares);
    const double change = (loss_after(alone, rate) - loss_after(alone, -rate)) / (2 * rate);
    CHECK(std::abs(change + squares) <= 1e-5 * squares);
  }
}

/// Every parameter's gradient that is not frozen or discarded is there and is not zero.
void check_all_move(const Scenario& scenario) {
  const SerialIteration trained = once(scenario);
  for (const NamedValues& gradient : trained.gradients) {
    CAPTURE(gradient.name);
    double squares = 0;
    for (const double value : gradient.values) squares += value * value;
    CHECK(squares > 0);
  }
  check_slopes(scenario);
}

Scenario with_input(std::vector<Module> children, Shape shape,
                    Loss loss = {.kind = LossKind::sum_of_squares, .divisor = 8}) {
  Scenario scenario = sharded(std::move(children));
  scenario.script.input = std::move(shape);
  scenario.model.loss = loss;
  return scenario;
}

double parameter(std::uint32_t index, std::uint32_t element = 0) {
  return formula::small_integer(1 + index, element) / 8.0;
}

}  // namespace

TEST_CASE("serial gradients are the slopes of the loss, whatever the module") {
  const Loss entropy{.kind = LossKind::cross_entropy};
  check_all_move(with_input({linear("a", 3, 4), relu("relu"), linear("b", 4, 2)}, {5, 3}));
  check_all_move(with_input({linear("a", 3, 4), scale("factor")}, {5, 3}));
  check_all_move(with_input({linear("a", 3, 4), layer_norm("norm", 4)}, {5, 3}));
  check_all_move(with_input({linear("a", 3, 4)}, {5, 3}, entropy));
  check_all_move(with_input({convolution("c", 2, 6, 4), relu("relu"), convolution("d", 4, 4, 2)}, {5, 6}));
  check_all_move(with_input({embedding("e", 5, 4, 0), linear("a", 4, 2)}, {2, 3}));
  check_all_move(with_input({embedding("e", 5, 4, 3), attention("mix", 4), linear("a", 4, 2)}, {2, 3}));
  check_all_move(
      with_input({linear("a", 3, 4), residual("add", {linear("b", 4, 4), relu("relu")}), linear("c", 4, 1)}, {5, 3}));
  check_all_move(with_input({linear("a", 3, 3), relu("relu"), use("again", "a"), linear("b", 3, 1)}, {5, 3}));
}

TEST_CASE("serial gradients of a small language model with a tied head are the slopes of its loss") {
  Module head = linear("head", 4, 5, false);
  head.tied_to = "emb";
  check_all_move(with_input(
      {embedding("emb", 5, 4, 3), residual("attend", {layer_norm("ln", 4), attention("mix", 4)}),
       residual("feed", {layer_norm("ln", 4), linear("up", 4, 6), relu("relu"), linear("down", 6, 4)}), head},
      {2, 3}, {.kind = LossKind::cross_entropy}));
}

TEST_CASE("a factor multiplies") {
  const SerialIteration trained = once(with_input({scale("s")}, {1, 2}, {.kind = LossKind::sum}));
  const double x0 = input(0, 0), x1 = formula::small_integer(1000, 1) / 8.0;
  CHECK(trained.losses[0] == parameter(0) * x0 + parameter(0) * x1);
  CHECK(trained.gradients[0].values == Values{x0 + x1});
  CHECK(trained.gradients[0].shape == Shape{1});
  Module scalar = scale("s");
  scalar.scalar = true;
  CHECK(once(with_input({scalar}, {1, 2})).parameters[0].shape.empty());
}

TEST_CASE("a convolution sums over channels and their places, with a weight of three dimensions") {
  const SerialIteration trained = once(with_input({convolution("c", 2, 6, 2)}, {1, 6}, {.kind = LossKind::dot}));
  CHECK(trained.parameters[0].shape == Shape{2, 2, 3});
  CHECK(trained.parameters[1].shape == Shape{2});
  double loss = 0;
  Values slopes;
  for (std::uint32_t out = 0; out < 2; ++out) {
    const double slope = formula::small_integer(7, out);
    double y = parameter(1, out);
    for (std::uint32_t channel = 0; channel < 2; ++channel) {
      for (std::uint32_t place = 0; place < 3; ++place) {
        const double x = formula::small_integer(1000, channel * 3 + place) / 8.0;
        y += parameter(0, (out * 2 + channel) * 3 + place) * x;
        slopes.push_back(slope * x);
      }
    }
    loss += slope * y;
  }
  CHECK(trained.losses[0] == loss);
  CHECK(trained.gradients[0].values == slopes);
  CHECK(trained.gradients[1].values == Values{1.0 * formula::small_integer(7, 0), 1.0 * formula::small_integer(7, 1)});
}

TEST_CASE("parameters can begin with the values of a truncated normal distribution") {
  Scenario scenario = with_input({convolution("c", 2, 40, 20)}, {1, 40});
  scenario.model.init = Distribution::truncated_normal;
  scenario.model.init_divisor = 2;
  const SerialIteration trained = once(scenario);
  for (std::size_t p = 0; p < 2; ++p) {
    CHECK(trained.parameters[p].tensor() == initial_value(scenario.model, p, 0, trained.parameters[p].shape));
    CHECK(trained.parameters[p].values !=
          once(with_input({convolution("c", 2, 40, 20)}, {1, 40})).parameters[p].values);
  }
}

TEST_CASE("an embedding gives a token's row and a position's; its gradient counts how often each was met") {
  const SerialIteration trained = once(with_input({embedding("e", 3, 1, 2)}, {2, 2}, {.kind = LossKind::sum}));
  CHECK(trained.parameters[0].name == "e.positions");
  CHECK(trained.parameters[1].name == "e.weight");
  double loss = 0;
  Values met(3);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t token = formula::bits(5000, i) % 3;
    loss += parameter(1, token) + parameter(0, i % 2);
    met[token] += 1;
  }
  CHECK(trained.losses[0] == loss);
  CHECK(trained.gradients[0].values == Values{2, 2});
  CHECK(trained.gradients[1].values == met);
}

TEST_CASE("layer norm leaves a mean of the bias and a deviation of the weight") {
  const Scenario scenario = with_input({layer_norm("n", 2)}, {1, 2}, {.kind = LossKind::sum});
  const SerialIteration trained = once(scenario);
  const double x0 = input(0, 0), x1 = formula::small_integer(1000, 1) / 8.0;
  REQUIRE(x0 != x1);
  const double half = (x0 - x1) / 2, normalized = half / std::sqrt(half * half + 1e-5);
  CHECK(std::abs(trained.losses[0] -
                 (normalized * (parameter(0, 0) - parameter(0, 1)) + parameter(1, 0) + parameter(1, 1))) < 1e-12);
  CHECK(trained.gradients[1].values == Values{1, 1});
  CHECK(std::abs(trained.gradients[0].values[0] - normalized) < 1e-12);
}

TEST_CASE("attention of the first position is its own value, projected") {
  const SerialIteration trained =
      once(with_input({embedding("e", 9, 1, 0), attention("mix", 1)}, {1, 1}, {.kind = LossKind::sum}));
  const double x = parameter(0, formula::bits(5000, 0) % 9);
  CHECK(trained.losses[0] == x * parameter(3) * parameter(4));
  CHECK(trained.gradients[1].values == Values{0});  // with one position there is nothing to choose
  CHECK(trained.gradients[3].values == Values{x * parameter(4)});
}

TEST_CASE("cross entropy is the mean of what the targets miss") {
  const SerialIteration trained =
      once(with_input({linear("a", 1, 2, false)}, {2, 1}, {.kind = LossKind::cross_entropy}));
  double loss = 0;
  for (std::uint32_t row = 0; row < 2; ++row) {
    const double x = formula::small_integer(1000, row) / 8.0;
    const double first = std::exp(parameter(0, 0) * x), second = std::exp(parameter(0, 1) * x);
    loss -= std::log((formula::bits(6000, row) % 2 == 0 ? first : second) / (first + second)) / 2;
  }
  CHECK(std::abs(trained.losses[0] - loss) < 1e-12);
}

TEST_CASE("what is discarded or in a list takes no part") {
  const Scenario scenario =
      with_input({container(ModuleKind::list, "bank", {linear("0", 1, 1, false), linear("1", 1, 1, false)}),
                  container(ModuleKind::discard, "side", {linear("a", 1, 3)}), use("one", "bank.1")},
                 {1, 1}, {.kind = LossKind::sum});
  const SerialIteration trained = once(scenario);
  CHECK(trained.losses[0] == input(0, 0) * parameter(1));
  CHECK_FALSE(trained.gradients[0].defined());
  CHECK(trained.gradients[1].values == Values{input(0, 0)});
  CHECK_FALSE(trained.gradients[2].defined());
  CHECK_FALSE(trained.gradients[3].defined());
}

TEST_CASE("a module used twice and a tied weight are one parameter with the gradients of both places") {
  const double w = parameter(0), x = input(0, 0);
  Module tied = linear("b", 1, 1, false);
  tied.tied_to = "a";
  for (const Module& second : {use("b", "a"), tied}) {
    const SerialIteration trained =
        once(with_input({linear("a", 1, 1, false), second}, {1, 1}, {.kind = LossKind::sum}));
    REQUIRE(trained.parameters.size() == 1);
    CHECK(trained.losses[0] == w * w * x);
    CHECK(trained.gradients[0].values == Values{2 * w * x});
  }
}

TEST_CASE("everything under a frozen module is frozen, and lets the slope through") {
  const SerialIteration trained =
      once(with_input({linear("a", 1, 1, false),
                       frozen(container(ModuleKind::sequential, "s", {linear("b", 1, 1, false), scale("c")}))},
                      {1, 1}, {.kind = LossKind::sum}));
  CHECK(trained.gradients[0].values == Values{input(0, 0) * parameter(1) * parameter(2)});
  CHECK_FALSE(trained.gradients[1].defined());
  CHECK_FALSE(trained.gradients[2].defined());
}
