// Gradients of layers and losses against central differences of the loss itself.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "fixtures/oracles/difference.hpp"
#include "tests/engines/networks.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

// Every parameter has a gradient, those that may not move excepted, and every element of it is what the loss does.
void check_gradients(Model model, const Tensor& input, const Tensor& targets = {}, const std::string& module = "") {
  model.init_divisor = 4;
  const std::vector<Tensor> parameters = initial_parameters(model);
  const std::vector<ParameterShape> declared = shardproof::parameters(model);
  const Trained trained = train(model, parameters, input, targets, module);

  for (std::size_t p = 0; p < parameters.size(); ++p) {
    CAPTURE(declared[p].name);
    REQUIRE(trained.gradients[p].defined() == declared[p].trainable);
    if (!declared[p].trainable) continue;
    std::vector<double> expected;
    for (std::int64_t i = 0; i < parameters[p].numel(); ++i) {
      // Values are multiples of 1/32 or so: a step this small crosses no kink of a ReLU except where its input is
      // exactly zero, and divides exactly.
      constexpr float step = 1.0f / 256;
      std::vector<double> losses;
      for (const float sign : {-1.0f, 1.0f}) {
        std::vector<Tensor> moved = parameters;
        moved[p] = parameters[p].clone();
        moved[p].values<float>()[static_cast<std::size_t>(i)] += sign * step;
        losses.push_back(train(model, moved, input, targets, module).loss);
      }
      expected.push_back((losses[1] - losses[0]) / (2 * step));
    }
    const Tensor numeric = Tensor::host(DType::f64, parameters[p].shape());
    std::ranges::copy(expected, numeric.values<double>().begin());
    double largest = 0;
    for (const double slope : expected) largest = std::max(largest, std::abs(slope));
    CHECK(largest > 5e-3);  // well above the rounding of a loss
    CHECK(oracles::largest_difference(trained.gradients[p], numeric) <= largest / 100);
  }
}

Tensor features() { return formula::tensor(1000, {5, 3}, 8); }
Tensor tokens() { return formula::tokens(5000, {2, 3}, 5); }
constexpr Loss squares{.kind = LossKind::sum_of_squares, .divisor = 8};

Module embedding(std::string name, std::int64_t positions) {
  return {
      .name = std::move(name), .kind = ModuleKind::embedding, .features = 4, .vocabulary = 5, .positions = positions};
}

}  // namespace

TEST_CASE("gradients are those of the loss") {
  for (const Loss how : {Loss{.kind = LossKind::sum}, squares, {.kind = LossKind::dot}}) {
    CAPTURE(static_cast<int>(how.kind));
    check_gradients(
        model_of({linear_module("a", 3, 4), module_of(ModuleKind::relu, "relu"), linear_module("b", 4, 2, false)}, how),
        features());
  }
}

TEST_CASE("cross entropy has the gradient of its loss") {
  check_gradients(model_of({linear_module("a", 3, 4)}, {.kind = LossKind::cross_entropy}), features(),
                  formula::tokens(6000, {5}, 4));
}

TEST_CASE("a factor has its gradient, be it a row of one or no row at all") {
  for (const bool scalar : {false, true}) {
    Module factor = module_of(ModuleKind::scale, "factor");
    factor.scalar = scalar;
    check_gradients(model_of({linear_module("a", 3, 2), factor}, squares), features());
  }
}

TEST_CASE("a convolution has the gradients of its loss, of the shape of its weight") {
  for (const std::int64_t channels : {1, 2, 4}) {
    Module convolution = convolution_module("c", channels, 4, 2);
    convolution.bias = channels != 2;
    const Model model = model_of({linear_module("a", 3, 4), convolution}, squares);
    CHECK(parameters(model)[2].shape == Shape{2, channels, 4 / channels});
    check_gradients(model, features());
  }
}

TEST_CASE("embeddings have their gradients, with positions and without") {
  for (const std::int64_t positions : {0, 3}) {
    check_gradients(model_of({embedding("tokens", positions), linear_module("a", 4, 2)}, squares), tokens());
  }
}

TEST_CASE("layer norm has its gradients") {
  check_gradients(model_of({linear_module("a", 3, 4), wide_module(ModuleKind::layer_norm, "norm", 4)}, squares),
                  features());
  check_gradients(model_of({wide_module(ModuleKind::layer_norm, "norm", 3)}, squares), features());
}

TEST_CASE("attention has its gradients") {
  check_gradients(model_of({embedding("tokens", 3), wide_module(ModuleKind::attention, "mix", 4)}, squares), tokens());
}

TEST_CASE("a residual passes the gradient on both ways") {
  check_gradients(
      model_of({linear_module("a", 3, 4), module_of(ModuleKind::residual, "add", {linear_module("b", 4, 4)})}, squares),
      features());
  check_gradients(model_of({module_of(ModuleKind::residual, "add", {linear_module("b", 3, 3)})}, squares), features());
}

TEST_CASE("a module that is used twice has the gradient of both uses") {
  check_gradients(
      model_of({linear_module("a", 3, 3), module_of(ModuleKind::relu, "relu"), use_of("again", "a")}, squares),
      features());
  check_gradients(model_of({module_of(ModuleKind::list, "bank", {linear_module("0", 3, 3), linear_module("1", 3, 3)}),
                            use_of("1", "bank.1"), use_of("0", "bank.0"), use_of("2", "bank.1")},
                           squares),
                  features());
}

TEST_CASE("a tied weight has the gradient of the embedding and of the head") {
  Module head = linear_module("head", 4, 5, false);
  head.tied_to = "tokens";
  const Model model =
      model_of({embedding("tokens", 0), linear_module("a", 4, 4), head}, {.kind = LossKind::cross_entropy});
  CHECK(parameters(model).size() == 3);
  check_gradients(model, tokens(), formula::tokens(6000, {6}, 5));
  Module biased = linear_module("b", 3, 3);
  biased.tied_to = "a";
  check_gradients(model_of({linear_module("a", 3, 3), biased}, squares), features());
}

TEST_CASE("frozen modules have no gradients, and pass them on") {
  Module frozen = module_of(ModuleKind::sequential, "frozen",
                            {linear_module("b", 4, 4), wide_module(ModuleKind::layer_norm, "norm", 4),
                             wide_module(ModuleKind::attention, "mix", 4), module_of(ModuleKind::scale, "factor")});
  frozen.frozen = true;
  check_gradients(
      model_of({embedding("tokens", 3), linear_module("a", 4, 4), frozen, linear_module("c", 4, 2)}, squares),
      tokens());
}

TEST_CASE("a module that runs alone has its own gradients") {
  const Model model = model_of(
      {module_of(ModuleKind::sequential, "first", {linear_module("a", 3, 4), linear_module("b", 4, 2)})}, squares);
  check_gradients(model, features(), {}, "first");
}

TEST_CASE("a small language model has its gradients") {
  Module head = linear_module("head", 4, 5, false);
  head.tied_to = "tokens";
  check_gradients(
      model_of(
          {embedding("tokens", 3),
           module_of(ModuleKind::residual, "attend",
                     {wide_module(ModuleKind::layer_norm, "norm", 4), wide_module(ModuleKind::attention, "mix", 4)}),
           module_of(ModuleKind::residual, "feed",
                     {wide_module(ModuleKind::layer_norm, "norm", 4), linear_module("up", 4, 6),
                      module_of(ModuleKind::relu, "relu"), linear_module("down", 6, 4)}),
           head},
          {.kind = LossKind::cross_entropy}),
      tokens(), formula::tokens(6000, {6}, 5));
}

TEST_CASE(
    "an output in low precision is widened once, for its loss and the slope of that, which goes back as the output "
    "came") {
  for (const auto& [dtype, casts] : std::vector<std::pair<DType, std::size_t>>{{DType::f32, 0}, {DType::bf16, 2}}) {
    CAPTURE(dtype);
    device::SimDevice device({}, 0);
    Tape tape(device);
    Parameter parameter;
    DType back = DType::i8;
    const Variable modelled =
        tape.operation(Tensor::host(dtype, {1, 2}), {}, {&parameter}, [&back](const Tensor& gradient) {
          back = gradient.dtype();
          return std::vector<Tensor>{};
        });
    const Variable output = loss_input(device, tape, modelled);
    CHECK(output.value.dtype() == DType::f32);
    loss(device, squares, output.value, {});
    play_back(tape, output, loss_gradient(device, squares, output.value, {}));
    CHECK(back == dtype);
    const Trace trace = device.take_trace();
    CHECK(std::ranges::count_if(trace.facts, [](const Fact& fact) {
            const auto* work = std::get_if<fact::Work>(&fact);
            return work != nullptr && work->label == "loss cast";
          }) == static_cast<std::ptrdiff_t>(casts));
  }
}
