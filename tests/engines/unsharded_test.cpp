// Layers without an engine: parameters are whole, and the test adds the gradients of all ranks. So a failure here has
// nothing to do with sharding.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/golden.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/engines/networks.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

Module embedding(std::string name, std::int64_t vocabulary, std::int64_t features, std::int64_t positions) {
  return {.name = std::move(name),
          .kind = ModuleKind::embedding,
          .features = features,
          .vocabulary = vocabulary,
          .positions = positions};
}

Model language_model(std::int64_t vocabulary, std::int64_t features, std::int64_t positions) {
  Module head = linear_module("head", features, vocabulary, false);
  head.tied_to = "emb";
  return model_of(
      {embedding("emb", vocabulary, features, positions),
       module_of(
           ModuleKind::residual, "attend",
           {wide_module(ModuleKind::layer_norm, "ln", features), wide_module(ModuleKind::attention, "mix", features)}),
       module_of(ModuleKind::residual, "feed",
                 {wide_module(ModuleKind::layer_norm, "ln", features), linear_module("up", features, 4 * features),
                  module_of(ModuleKind::relu, "relu"), linear_module("down", 4 * features, features)}),
       head},
      {.kind = LossKind::cross_entropy});
}

// The mean over ranks; in rank order, then one division.
Tensor mean(const std::vector<Trained>& ranks, std::size_t parameter) {
  const Tensor sum = ranks[0].gradients[parameter].clone();
  for (std::size_t rank = 1; rank < ranks.size(); ++rank)
    cpu_kernels().accumulate(nullptr, sum, ranks[rank].gradients[parameter]);
  cpu_kernels().divide(nullptr, sum, sum, static_cast<double>(ranks.size()));
  return sum;
}

// Forward and backward of the serial model, for a world of one.
oracles::SerialIteration serially(const Model& model, const Shape& input) {
  Scenario scenario{.model = model};
  fully_shard_plan(scenario.plan).wrap = {{.modules = {""}}};
  scenario.script.input = input;
  scenario.script.segments = {{1, {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}}};
  return oracles::train_serially(scenario, 1, oracles::Arithmetic::f64).at(0);
}

void check_as_serially(const Model& model, const Tensor& input, const Tensor& targets = {}) {
  const oracles::SerialIteration expected = serially(model, input.shape());
  const Trained trained = train(model, initial_parameters(model), input, targets);
  CHECK(std::abs(trained.loss - expected.losses[0]) <= 1e-5 * std::max(1.0, std::abs(expected.losses[0])));
  REQUIRE(trained.gradients.size() == expected.gradients.size());
  for (std::size_t p = 0; p < trained.gradients.size(); ++p) {
    CAPTURE(expected.gradients[p].name);
    REQUIRE(trained.gradients[p].defined() == expected.gradients[p].defined());
    if (!trained.gradients[p].defined()) continue;
    double largest = 0;
    for (const double slope : expected.gradients[p].values) largest = std::max(largest, std::abs(slope));
    CHECK(largest > 0);
    CHECK(oracles::largest_difference(trained.gradients[p], expected.gradients[p].tensor()) <= 1e-5 * largest);
  }
}

}  // namespace

TEST_CASE("a small language model trains as in PyTorch, before anybody shards it") {
  for (const char* name : {"f_tiny_W1", "f_tiny_W2"}) {
    CAPTURE(name);
    const oracles::golden::Values golden = oracles::golden::values(name);
    const Model model = language_model(16, 8, 4);
    std::vector<Tensor> parameters = initial_parameters(model);
    for (std::size_t i = 0; i < golden.iterations.size(); ++i) {
      const oracles::golden::Iteration& expected = golden.iterations[i];
      std::vector<Trained> ranks;
      for (int rank = 0; rank < golden.world; ++rank) {
        const auto seed = static_cast<std::uint32_t>(100 * static_cast<int>(i) + rank);
        ranks.push_back(
            train(model, parameters, formula::tokens(5000 + seed, {2, 4}, 16), formula::tokens(6000 + seed, {8}, 16)));
        CHECK(std::abs(ranks.back().loss - expected.losses[static_cast<std::size_t>(rank)]) <= expected.tolerance.loss);
      }
      REQUIRE(parameters.size() == expected.parameters.size());
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        CAPTURE(i, expected.parameters[p].name);
        const Tensor gradient = mean(ranks, p);
        CHECK(oracles::largest_difference(gradient, expected.parameters[p].gradient) <= expected.tolerance.gradient);
        cpu_kernels().sgd(nullptr, parameters[p], gradient, 0.1);
        CHECK(oracles::largest_difference(parameters[p], expected.parameters[p].after) <= expected.tolerance.parameter);
      }
    }
  }
}

TEST_CASE("layers and the serial model, which share nothing, compute the same") {
  const Loss loss{.kind = LossKind::sum_of_squares, .divisor = 8};
  check_as_serially(language_model(11, 6, 5), formula::tokens(5000, {3, 5}, 11), formula::tokens(6000, {15}, 11));
  Module frozen = module_of(ModuleKind::residual, "frozen",
                            {wide_module(ModuleKind::layer_norm, "norm", 4),
                             wide_module(ModuleKind::attention, "mix", 4), module_of(ModuleKind::scale, "factor")});
  frozen.frozen = true;
  check_as_serially(
      model_of({embedding("tokens", 7, 4, 0), frozen, module_of(ModuleKind::scale, "factor"), linear_module("a", 4, 2)},
               loss),
      formula::tokens(5000, {2, 3}, 7));
  check_as_serially(model_of({convolution_module("window", 3, 6, 4), module_of(ModuleKind::relu, "relu"),
                              convolution_module("again", 2, 4, 5)},
                             loss),
                    formula::tensor(1000, {5, 6}, 8));
  Module tied = linear_module("c", 4, 4);
  tied.tied_to = "bank.1";
  check_as_serially(
      model_of({linear_module("a", 3, 4),
                module_of(ModuleKind::list, "bank", {linear_module("0", 4, 4), linear_module("1", 4, 4)}),
                module_of(ModuleKind::residual, "add", {use_of("one", "bank.1"), module_of(ModuleKind::relu, "relu")}),
                tied, module_of(ModuleKind::discard, "side", {linear_module("b", 4, 9)}), use_of("two", "bank.1")},
               loss),
      formula::tensor(1000, {5, 3}, 8));
}
