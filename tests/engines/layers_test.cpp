// Gradients of layers and losses against central differences of the loss itself.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "fixtures/engines/layers/layers.hpp"
#include "harness/device/sim/sim_device.hpp"
#include "harness/scenario/formula.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

scenario::Model two_layers(scenario::Loss loss) {
  scenario::Model model;
  model.root.children = {{.name = "a", .kind = scenario::ModuleKind::linear, .in_features = 3, .out_features = 4},
                         {.name = "relu", .kind = scenario::ModuleKind::relu},
                         {.name = "b", .kind = scenario::ModuleKind::linear, .in_features = 4, .out_features = 2, .bias = false}};
  model.loss = loss;
  return model;
}

struct Trained {
  double loss = 0;
  std::vector<std::vector<double>> gradients;
};

Trained train(const scenario::Model& model, const std::vector<Tensor>& parameters, const Tensor& input) {
  SimDevice device({}, 0);
  Network network(model);
  for (std::size_t i = 0; i < parameters.size(); ++i) network.parameters()[i].value = parameters[i];
  Tape tape(device);
  const ModuleHooks hooks{.before = [](const std::string&, Variable x) { return x; },
                          .after = [](const std::string&, Variable y) { return y; }};
  const Variable output = network.forward(device, tape, hooks, {input});
  Trained result{.loss = loss(device, model.loss, output.value).to_doubles()[0]};
  tape.backward(output, loss_gradient(device, model.loss, output.value));
  for (const Parameter& parameter : network.parameters()) result.gradients.push_back(parameter.gradient.to_doubles());
  return result;
}

}  // namespace

TEST_CASE("gradients are those of the loss") {
  using Kind = scenario::LossKind;
  for (const scenario::Loss how : {scenario::Loss{.kind = Kind::sum}, {.kind = Kind::sum_of_squares, .divisor = 8}, {.kind = Kind::dot}}) {
    CAPTURE(static_cast<int>(how.kind));
    const scenario::Model model = two_layers(how);
    std::vector<Tensor> parameters;
    for (const auto& [name, shape] : scenario::parameters(model)) {
      parameters.push_back(formula::tensor(static_cast<std::uint32_t>(parameters.size() + 1), shape, 8));
    }
    const Tensor input = formula::tensor(1000, {5, 3}, 8);
    const Trained trained = train(model, parameters, input);

    double largest = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      for (std::int64_t i = 0; i < parameters[p].numel(); ++i) {
        // Values are multiples of 1/64 or so: a step this small crosses no kink of the ReLU except where its input is exactly zero, and
        // divides exactly.
        constexpr float step = 1.0f / 1024;
        std::vector<double> losses;
        for (const float sign : {-1.0f, 1.0f}) {
          std::vector<Tensor> moved = parameters;
          moved[p] = parameters[p].clone();
          moved[p].values<float>()[static_cast<std::size_t>(i)] += sign * step;
          losses.push_back(train(model, moved, input).loss);
        }
        const double numeric = (losses[1] - losses[0]) / (2 * step);
        const double analytic = trained.gradients[p][static_cast<std::size_t>(i)];
        CAPTURE(p, i);
        CHECK_THAT(analytic, Catch::Matchers::WithinAbs(numeric, 5e-3));
        largest = std::max(largest, std::abs(analytic));
      }
    }
    CHECK(largest > 0.1);
  }
}
