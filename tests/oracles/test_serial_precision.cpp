// The serial model in mixed precision, by hand: what is rounded, when, and to what.
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "fixtures/oracles/divide_factors.hpp"
#include "fixtures/oracles/rounding.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/oracles/scenarios.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using Values = std::vector<double>;

constexpr Arithmetic both[] = {Arithmetic::f32, Arithmetic::f64};

const std::vector<Action> one_backward{forward, backward, capture};

/// One weight, whose gradient is the input: `given[i][rank]` in iteration i.
Scenario with_gradients(const std::vector<Values>& given, MixedPrecision how) {
  Scenario scenario = one_weight();
  for (const Values& of_ranks : given) {
    std::vector<Values>& by_rank = scenario.script.given.emplace_back();
    for (const double value : of_ranks) by_rank.push_back({value});
  }
  scenario.plan.mixed_precision = how;
  scenario.script.segments = script({one_backward});
  return scenario;
}

/// The only gradient in the last capture, or the gradient of the parameter `which`. It is the same in both arithmetics,
/// or NaN.
double gradient(const Scenario& scenario, int world, std::size_t which = 0) {
  const double single = train_serially(scenario, world, Arithmetic::f32).back().gradients.at(which).values.at(0);
  const double twice = train_serially(scenario, world, Arithmetic::f64).back().gradients.at(which).values.at(0);
  return single == twice ? single : std::nan("");
}

/// `y = b(a(x))`, each 1→1 without a bias, `b` wrapped. The slope by y is a third of a small integer.
Scenario after_another(MixedPrecision how) {
  Scenario scenario = sharded({linear("a", 1, 1, false), linear("b", 1, 1, false)});
  fully_shard_plan(scenario.plan).wrap[0].modules = {"b"};
  scenario.plan.mixed_precision = how;
  scenario.model.loss = {.kind = LossKind::dot, .divisor = 3, .dot_seed = 9};
  scenario.script.segments = script({one_backward});
  return scenario;
}

}  // namespace

TEST_CASE("gradients that wait for a reduction are added up in its format") {
  const auto sync = [](bool value) { return set(ActionKind::set_requires_gradient_sync, "", value); };
  for (const std::optional<DType> param : {std::optional<DType>{}, std::optional(DType::bf16)}) {
    Scenario scenario = with_gradients({{256}, {1}, {-256}}, {.param = param, .reduce = {}, .output = {}});
    scenario.script.segments =
        script({{sync(false), forward, backward}, {forward, backward}, {sync(true), forward, backward, capture}});
    CHECK(gradient(scenario, 1) == 1);
    CHECK(gradient(scenario, 2) == 1);
    scenario.plan.mixed_precision.reduce = DType::f32;
    CHECK(gradient(scenario, 2) == 1);
    scenario.plan.mixed_precision.reduce = DType::bf16;
    CHECK(gradient(scenario, 1) == 0);
    CHECK(gradient(scenario, 2) == 0);
  }
}

TEST_CASE("reduced gradients accumulate in f32, whatever the dtype of the reduction") {
  Scenario scenario = with_gradients({{256}, {1}, {-256}}, {.param = DType::bf16, .reduce = DType::bf16, .output = {}});
  scenario.script.segments = script({{forward, backward}, {forward, backward}, one_backward});
  CHECK(gradient(scenario, 1) == 1);
}

TEST_CASE("gradients of all ranks are added up in the format that they are reduced in") {
  Scenario scenario = with_gradients({{256, 1, -256}}, {.param = {}, .reduce = DType::bf16, .output = {}});
  CHECK(gradient(scenario, 3) == 0);
  scenario.plan.mixed_precision.reduce = DType::f32;
  fully_shard_plan(scenario.plan).gradient_divide_factor = 1;
  CHECK(gradient(scenario, 3) == 1);
  scenario.plan.mixed_precision.reduce = DType::f16;  // nothing to divide by before
  CHECK(gradient(scenario, 3) == 1);

  scenario = with_gradients({{1, 2, 4}}, {.param = {}, .reduce = DType::bf16, .output = {}});
  CHECK(gradient(scenario, 3) == bf16(7.0 / 3));
  fully_shard_plan(scenario.plan).gradient_divide_factor = 3;  // the number of ranks that shard: as a mean
  CHECK(gradient(scenario, 3) == bf16(7.0 / 3));
  fully_shard_plan(scenario.plan).gradient_divide_factor =
      5;  // each is multiplied by a fifth, which is rounded, and so is every sum
  const double fifth = bf16(1.0 / 5);
  CHECK(gradient(scenario, 3) == bf16(bf16(fifth + 2 * fifth) + 4 * fifth));
  CHECK(bf16(bf16(fifth + 2 * fifth) + 4 * fifth) != bf16(7.0 / 5));
  CHECK(gradient(with_gradients({{1 + 1.0 / 1024}}, {.param = {}, .reduce = DType::bf16, .output = {}}), 1) == 1);
}

TEST_CASE("in f16 gradients are divided before the sum, and by the remaining factor after it") {
  const MixedPrecision f16{.param = {}, .reduce = DType::f16, .output = {}};
  CHECK(gradient(with_gradients({{40000, 40000}}, f16), 2) == 40000);
  CHECK(std::isinf(gradient(with_gradients({{40000, 40000, 40000, 40000}}, f16), 4)));  // by 2 before, by 2 after
  Scenario scenario = with_gradients({{40000, 40000}}, f16);
  fully_shard_plan(scenario.plan).gradient_divide_factor = 1;
  CHECK(std::isinf(gradient(scenario, 2)));
  fully_shard_plan(scenario.plan).gradient_divide_factor = 16;  // by 4 and by 4
  CHECK(gradient(scenario, 2) == 5000);
  // By 2, then by 1.5: 2049 / 2 is exact, their sum 3073.5 is not.
  CHECK(gradient(with_gradients({{2049, 2049, 2049}}, {.param = DType::f32, .reduce = DType::f16, .output = {}}), 3) ==
        2048);
  CHECK(gradient(with_gradients({{1, 1, 2}}, f16), 3) == rounded_to(DType::f16, 2 / 1.5));
}

TEST_CASE("replicas add up what shard groups have added up, in the same format") {
  Scenario scenario = with_gradients({{1, 256, 1, -256}}, {.param = {}, .reduce = DType::bf16, .output = {}});
  CHECK(gradient(scenario, 4) == 0);
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  CHECK(gradient(scenario, 4) == (128 - 127.5) / 2);
  fully_shard_plan(scenario.plan).gradient_divide_factor = 0.5;
  CHECK(gradient(scenario, 4) == (256 - 255) / 0.5);
  scenario = with_gradients({{256, 1, -256}}, {.param = {}, .reduce = DType::bf16, .output = {}});
  scenario.plan.mesh = {.shape = {3, 1}, .names = {"replicate", "shard"}};
  CHECK(gradient(scenario, 3) == 0);

  const auto all_reduce = [](bool value) { return set(ActionKind::set_requires_all_reduce, "", value); };
  for (const auto& [reduce, expected] : {std::pair(DType::bf16, 0), {DType::f32, 1}}) {
    scenario = with_gradients({{256}, {1}, {-256}}, {.param = {}, .reduce = reduce, .output = {}});
    scenario.plan.mesh = {.shape = {2, 1}, .names = {"replicate", "shard"}};
    scenario.script.segments = script(
        {{all_reduce(false), forward, backward}, {forward, backward}, {all_reduce(true), forward, backward, capture}});
    CHECK(gradient(scenario, 2) == expected);
  }
}

TEST_CASE("by what gradients are divided before and after: PyTorch's table, and its loop") {
  const std::vector<std::tuple<double, double, double>> table = {{1, 1, 1},   {2, 2, 1},   {3, 2, 1.5}, {4, 2, 2},
                                                                 {5, 2, 2.5}, {6, 4, 1.5}, {7, 2, 3.5}, {8, 4, 2},
                                                                 {12, 4, 3},  {16, 4, 4},  {64, 8, 8}};
  for (const auto& [by, pre, post] : table) {
    CAPTURE(by);
    CHECK(divide_factors(by) == DivideFactors{pre, post});
  }
  for (double by = 0.25; by <= 1200; by += 0.25) {
    double factor = 1;
    while (std::fmod(by, factor) == 0 && by / factor > factor) factor *= 2;
    CAPTURE(by);
    REQUIRE(divide_factors(by) == DivideFactors{factor, by / factor});
  }
}

TEST_CASE("a linear layer's output is rounded once, after its bias has been added") {
  Scenario scenario = sharded({linear("l", 1, 1)});
  scenario.plan.mixed_precision.param = DType::bf16;
  scenario.script.segments = script({one_backward});
  scenario.model.init_divisor = 7;
  const double weight = bf16(formula::small_integer(1, 0) / 7.0), bias = bf16(formula::small_integer(2, 0) / 7.0);
  int differ = 0;
  for (int i = 0; i < 128; ++i) {
    const double x = 1 + i / 128.0;
    scenario.script.given = {{{x}}};
    differ += bf16(x * weight + bias) != bf16(bf16(x * weight) + bias);
    for (const Arithmetic arithmetic : both)
      CHECK(train_serially(scenario, 1, arithmetic).at(0).losses == Values{bf16(x * weight + bias)});
  }
  CHECK(differ > 0);
}

TEST_CASE("sums within an operation are not rounded on the way") {
  Scenario scenario = sharded({scale("s")});
  scenario.plan.mixed_precision.param = DType::bf16;
  scenario.script.input = {3, 1};
  scenario.script.given = {{{256, 1, -256}}};
  scenario.script.segments = script({one_backward});
  for (const Arithmetic arithmetic : both)
    CHECK(train_serially(scenario, 1, arithmetic).at(0).gradients[0].values == Values{1});
}

TEST_CASE("inputs of a wrapped module are cast, parameters too, and the module in front knows nothing of it") {
  Scenario scenario = after_another({.param = DType::bf16, .reduce = {}, .output = {}});
  scenario.model.init_divisor = 7;
  const double a = formula::small_integer(1, 0) / 7.0, b = formula::small_integer(2, 0) / 7.0,
               row = formula::small_integer(9, 0) / 3.0;
  const double x = input(0, 0);
  const SerialIteration trained = train_serially(scenario, 1, Arithmetic::f64).at(0);
  CHECK(trained.parameters[1].values == Values{b});
  CHECK(trained.losses == Values{bf16(bf16(x * a) * bf16(b)) * row});
  CHECK(trained.gradients[1].values == Values{bf16(bf16(row) * bf16(x * a))});
  CHECK(trained.gradients[0].local == std::vector<Values>{{bf16(bf16(row) * bf16(b)) * x}});
  REQUIRE(bf16(x * a) != x * a);
  REQUIRE(bf16(row) != row);
}

TEST_CASE("outputs of a wrapped module are cast, their slopes back") {
  Scenario scenario = after_another({.param = DType::bf16, .reduce = {}, .output = DType::f32});
  const double row = formula::small_integer(9, 0) / 3.0, weight = formula::small_integer(1, 0) / 8.0;
  int differ = 0;
  for (int i = 0; i < 32; ++i) {
    const double seen = bf16((1 + i / 128.0) * weight), expected = bf16(bf16(row) * seen);
    scenario.script.given = {{{1 + i / 128.0}}};
    CHECK(gradient(scenario, 1, 1) == expected);
    differ += expected != bf16(row * seen);
  }
  CHECK(differ > 0);

  scenario.plan.mixed_precision = {.param = {}, .reduce = {}, .output = DType::bf16};  // computed in f32, given in bf16
  scenario.model.init_divisor = 3;
  scenario.script.given.clear();
  const SerialIteration trained = train_serially(scenario, 1, Arithmetic::f64).at(0);
  const double x = input(0, 0), a = formula::small_integer(1, 0) / 3.0, b = formula::small_integer(2, 0) / 3.0;
  CHECK(trained.losses == Values{bf16(x * a * b) * row});
  CHECK(trained.gradients[1].values == Values{bf16(row) * (x * a)});
  CHECK(trained.gradients[0].local == std::vector<Values>{{bf16(row) * b * x}});
}

TEST_CASE("sums, products and slopes are tensors, and are rounded") {
  Scenario scenario = sharded({scale("first"), scale("second"), residual("r", {scale("third")})});
  scenario.plan.mixed_precision = {.param = DType::bf16, .reduce = {}, .output = {}};
  scenario.script.segments = script({one_backward});
  scenario.model.init_divisor = 7;
  const auto weight = [](std::uint32_t seed) { return bf16(formula::small_integer(seed, 0) / 7.0); };
  for (int i = 0; i < 128; ++i) {
    const double x = 1 + i / 128.0, y = bf16(weight(1) * x), z = bf16(weight(2) * y);
    const double by_z = bf16(1 + weight(3)), by_y = bf16(by_z * weight(2));
    scenario.script.given = {{{x}}};
    CAPTURE(x);
    for (const Arithmetic arithmetic : both) {
      CHECK(train_serially(scenario, 1, arithmetic).at(0).losses == Values{bf16(z + bf16(weight(3) * z))});
    }
    CHECK(gradient(scenario, 1, 2) == z);
    CHECK(gradient(scenario, 1, 1) == bf16(by_z * y));
    CHECK(gradient(scenario, 1, 0) == bf16(by_y * x));
  }
}

TEST_CASE("gradients of one tensor may be added in any order, also where an inner group adds some of them") {
  Scenario scenario =
      sharded({scale("first"), residual("outer", {residual("inner", {scale("x")}), scale("y")}), scale("last")});
  scenario.script.segments = script({one_backward});
  scenario.script.given = {{{1}}};
  scenario.plan.mixed_precision.param = DType::bf16;
  const auto shows = [&](int divisor) {
    scenario.model.init_divisor = divisor;
    return train_serially(scenario, 1, Arithmetic::f32).at(0).order_shows;
  };
  CHECK(shows(1).empty());
  CHECK(shows(97).find("three slopes") != std::string::npos);
  fully_shard_plan(scenario.plan).wrap.push_back({{"outer.inner"}, {}});
  CHECK(shows(1).empty());
  CHECK(shows(97).find("three slopes") != std::string::npos);
}

TEST_CASE("what a module gives is of the format it computes in") {
  std::uint32_t seed = 0;  // of a row that picks the first feature
  while (formula::small_integer(seed, 0) != 1 || formula::small_integer(seed, 1) != 0) ++seed;
  for (const Module& module : {linear("m", 2, 2), convolution("m", 2, 2, 2), layer_norm("m", 2), attention("m", 2),
                               embedding("m", 16, 2, 1)}) {
    const bool takes_tokens = module.kind == ModuleKind::embedding;
    Scenario scenario = sharded({module});
    scenario.model.init_divisor = 3;
    scenario.model.loss = {.kind = LossKind::dot, .divisor = 1, .dot_seed = seed};
    scenario.script.input = {1, takes_tokens ? 1 : 2};
    scenario.script.input_divisor = 7;
    scenario.script.segments = {{16, {forward, capture}}};
    for (const DType dtype : {DType::bf16, DType::f16}) {
      scenario.plan.mixed_precision.param = dtype;
      for (const SerialIteration& iteration : train_serially(scenario, 1, Arithmetic::f64)) {
        CAPTURE(to_string(module.kind));
        CHECK(rounded_to(dtype, iteration.losses[0]) == iteration.losses[0]);
      }
    }
  }
}

TEST_CASE("a slope is rounded before anything is made of it") {
  // With one row, the gradient of the bias before the module is the slope itself. The gradient of the weight is its
  // product with the input.
  for (const Module& module : {linear("m", 4, 4), convolution("m", 2, 4, 4), layer_norm("m", 4), attention("m", 4)}) {
    Scenario scenario = sharded({linear("before", 4, 4), module});
    scenario.model.init_divisor = 7;
    scenario.model.loss = {.kind = LossKind::dot, .divisor = 3, .dot_seed = 7};
    scenario.script.input = {1, 4};
    scenario.script.segments = {{8, {zero_grad, forward, backward, capture}}};
    scenario.plan.mixed_precision.param = DType::bf16;
    int iteration = 0;
    for (const SerialIteration& trained : train_serially(scenario, 1, Arithmetic::f64)) {
      CAPTURE(to_string(module.kind), iteration);
      const Values &weight = trained.gradients[0].values, &bias = trained.gradients[1].values;
      for (std::uint32_t i = 0; i < 16; ++i) {
        const double x = formula::small_integer(static_cast<std::uint32_t>(1000 + 100 * iteration), i % 4) / 8.0;
        CHECK(weight[i] == bf16(bias[i / 4] * x));
      }
      ++iteration;
    }
  }
}

TEST_CASE("slopes of an attention's projections are rounded before anything is made of them") {
  // Sequences of two, one per rank. In backward, the first row's query has no slope, because it attends to itself
  // alone. So for each feature, the gradient of the query's weight has the products of one slope with the second row of
  // the input. Here the input is the output of the embedding.
  Scenario scenario = sharded({embedding("e", 16, 4, 0), attention("a", 4)});
  scenario.model.init_divisor = 3;
  scenario.model.loss = {.kind = LossKind::dot, .divisor = 3, .dot_seed = 7};
  scenario.script.input = {1, 2};
  scenario.script.segments = {{8, {zero_grad, forward, backward, capture}}};
  scenario.plan.mixed_precision.param = DType::bf16;
  const auto products_of_one = [](const double* gradient, const Values& x) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == 0) continue;
      // The slope that gives this product is a value near the quotient.
      const double near = bf16(gradient[i] / x[i]), spacing = std::ldexp(1.0, std::ilogb(near) - 8);
      for (int away = -4; away <= 4; ++away) {
        const double slope = bf16(near + away * spacing);
        bool all = true;
        for (std::size_t j = 0; j < x.size(); ++j) all = all && bf16(slope * x[j]) == gradient[j];
        if (all) return true;
      }
      return false;
    }
    return true;
  };
  int iteration = 0, moved = 0;
  for (const SerialIteration& trained : train_serially(scenario, 1, Arithmetic::f64)) {
    const auto token = static_cast<std::size_t>(
        formula::tokens(static_cast<std::uint32_t>(5000 + 100 * iteration), {2}, 16).values<std::int64_t>()[1]);
    Values x;
    for (std::size_t i = 0; i < 4; ++i) x.push_back(bf16(trained.parameters[0].values[token * 4 + i]));
    CAPTURE(iteration);
    for (std::size_t o = 0; o < 4; ++o) {
      const double* gradient = trained.gradients[1].values.data() + o * 4;
      moved += std::any_of(gradient, gradient + 4, [](double value) { return value != 0; });
      CHECK(products_of_one(gradient, x));
    }
    ++iteration;
  }
  CHECK(moved > 16);
}

TEST_CASE("each use of a parameter gives its own rounded gradient, and every sum of them is rounded") {
  Scenario scenario = sharded({linear("l", 1, 1, false), use("second", "l"), use("third", "l")});
  scenario.plan.mixed_precision = {.param = DType::bf16, .reduce = {}, .output = {}};
  scenario.script.segments = script({one_backward});
  scenario.model.init_divisor = 7;
  const double weight = bf16(formula::small_integer(1, 0) / 7.0);
  int differ = 0;
  for (int i = 0; i < 32; ++i) {
    const double x = 1 + i / 128.0, y = bf16(weight * x), z = bf16(weight * y);
    const double by_second = weight * y, by_first = bf16(weight * weight) * x;  // z by the third
    scenario.script.given = {{{x}}};
    const double expected = bf16(bf16(z + bf16(by_second)) + bf16(by_first));
    CHECK(gradient(scenario, 1) == expected);
    differ += expected != bf16(bf16(z + by_second) + by_first);
  }
  CHECK(differ > 0);
}

TEST_CASE("a module whose input and parameters are of different dtypes is refused by name") {
  const auto refused = [](const Scenario& scenario, const std::string& path) {
    CHECK_THROWS_MATCHES(
        train_serially(scenario, 1, Arithmetic::f32), std::invalid_argument,
        MessageMatches(ContainsSubstring("module \"" + path + "\"") && ContainsSubstring("f32 and bf16")));
  };
  Scenario scenario = after_another({.param = DType::bf16, .reduce = {}, .output = {}, .cast_forward_inputs = false});
  refused(scenario, "b");

  scenario = sharded({residual("r", {linear("l", 1, 1)})});
  scenario.script.segments = script({one_backward});
  fully_shard_plan(scenario.plan).wrap[0].modules = {"r.l"};
  scenario.plan.mixed_precision.param = DType::bf16;
  refused(scenario, "r");
  scenario.plan.mixed_precision.output = DType::f32;
  CHECK_NOTHROW(train_serially(scenario, 1, Arithmetic::f32));

  for (const Module& module :
       {linear("m", 2, 2), convolution("m", 2, 2, 2), layer_norm("m", 2), attention("m", 2), scale("m")}) {
    scenario = sharded({module});
    scenario.script.segments = script({one_backward});
    scenario.script.input = {1, 2};
    scenario.plan.mixed_precision.param = DType::bf16;
    CHECK_NOTHROW(train_serially(scenario, 1, Arithmetic::f32));
    for (const ParameterShape& each : parameters(scenario.model)) {
      INFO(each.name);
      fully_shard_plan(scenario.plan).ignored_parameters = {each.name};
      CHECK_THROWS_MATCHES(train_serially(scenario, 1, Arithmetic::f32), std::invalid_argument,
                           MessageMatches(ContainsSubstring("module \"m\"")));
    }
  }
}

TEST_CASE("every kind of module trains in low precision: near what it does in f32, and on values of the format") {
  Module head = linear("head", 8, 16, false);
  head.tied_to = "emb";
  Scenario scenario = sharded(
      {embedding("emb", 16, 8, 4), residual("attend", {layer_norm("ln", 8), attention("mix", 8)}), scale("s"),
       residual("feed", {layer_norm("ln", 8), linear("up", 8, 32), relu("relu"), linear("down", 32, 8)}), head});
  scenario.model.loss.kind = LossKind::cross_entropy;
  scenario.script.input = {2, 4};
  scenario.script.segments = script({one_backward});
  const SerialIteration exact = train_serially(scenario, 1, Arithmetic::f64).at(0);
  for (const auto& [dtype, tolerance] : {std::pair(DType::bf16, 0.1), {DType::f16, 0.02}}) {
    scenario.plan.mixed_precision = {.param = dtype, .reduce = {}, .output = {}};
    for (const Arithmetic arithmetic : both) {
      const SerialIteration trained = train_serially(scenario, 1, arithmetic).at(0);
      CHECK(std::abs(trained.losses[0] - exact.losses[0]) < tolerance);
      CHECK(trained.losses[0] != rounded_to(dtype, trained.losses[0]));  // a loss is f32
      for (std::size_t j = 0; j < exact.gradients.size(); ++j) {
        INFO(exact.gradients[j].name);
        double error = 0, length = 0;
        for (std::size_t i = 0; i < exact.gradients[j].values.size(); ++i) {
          const double value = trained.gradients[j].values[i], expected = exact.gradients[j].values[i];
          error += (value - expected) * (value - expected);
          length += expected * expected;
          if (rounded_to(dtype, value) != value) FAIL_CHECK("a gradient that is no value of the format");
        }
        CHECK(error <= tolerance * tolerance * length);
        CHECK(error > 0);
      }
    }
  }
}

TEST_CASE("given inputs go round by iteration and by rank") {
  Scenario scenario = with_gradients({{1, 2}, {3, 4}}, {});
  scenario.script.segments =
      script({{}, {}, {zero_grad, forward, backward, capture}, {zero_grad, forward, backward, capture}});
  const auto trained = train_serially(scenario, 3, Arithmetic::f64);
  CHECK(trained[0].gradients[0].values == Values{(1 + 2 + 1) / 3.0});
  CHECK(trained[1].gradients[0].values == Values{(3 + 4 + 3) / 3.0});
}
