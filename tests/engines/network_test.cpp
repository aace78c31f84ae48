// The order and the names of the work in a network's forward and backward.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <variant>

#include "tests/engines/networks.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

// The labels of this kind of work, in order.
std::vector<std::string> worked(const Trace& trace, WorkKind kind) {
  std::vector<std::string> labels;
  for (const Fact& each : trace.facts) {
    const auto* work = std::get_if<fact::Work>(&each);
    if (work != nullptr && work->kind == kind) labels.push_back(work->label);
  }
  return labels;
}

// How many input gradients have been computed.
std::ptrdiff_t input_gradients(const Trace& trace) {
  return std::ranges::count_if(trace.facts, [](const Fact& each) {
    const auto* allocated = std::get_if<fact::Allocated>(&each);
    return allocated != nullptr && allocated->label.ends_with("input gradient");
  });
}

// A network with its parameters in place, and what its hooks see: `+` before a module, `-` after it, `*` as the
// gradient of its input passes.
struct Watched {
  explicit Watched(const Model& model) : network(model) {
    const std::vector<Tensor> initial = initial_parameters(model);
    for (std::size_t i = 0; i < initial.size(); ++i) network.parameters()[i].value = initial[i];
    hooks.before = [this](const std::string& path, const Variable& x) {
      seen.push_back("+" + path);
      return tape.hook(x, [this, path] { seen.push_back("*" + path); });
    };
    hooks.after = [this](const std::string& path, Variable y) {
      seen.push_back("-" + path);
      return y;
    };
  }

  Variable forward(const Passage& passage = {}) {
    return network.forward(device, tape, hooks, {formula::tensor(1000, {2, 3}, 8)}, passage);
  }

  device::SimDevice device{{}, 0};
  Network network;
  Tape tape{device};
  ModuleHooks hooks;
  std::vector<std::string> seen;
};

const Tensor network_input = formula::tensor(1000, {2, 3}, 8);

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("hooks see every module that runs, and a used one under its own path") {
  Watched watched(
      model_of({module_of(ModuleKind::list, "bank", {linear_module("a", 3, 3), linear_module("b", 3, 3)}),
                module_of(ModuleKind::residual, "add", {use_of("one", "bank.b")}), use_of("two", "bank.b")}));
  const Variable output = watched.forward();
  CHECK(watched.seen == Names{"+", "+add", "+bank.b", "-bank.b", "-add", "+bank.b", "-bank.b", "-"});
  watched.seen.clear();
  play_back(watched.tape, output, formula::tensor(1, {2, 3}, 8));
  CHECK(watched.seen ==
        Names{"*bank.b"});  // no layer needs the gradient of the model's input, which is the gradient of the first use
  CHECK_FALSE(watched.network.parameters()[0].gradient.defined());
  CHECK(watched.network.parameters()[2].gradient.defined());
}

TEST_CASE("what is discarded runs, and takes no part in the backward pass") {
  const Model model =
      model_of({linear_module("a", 3, 3), module_of(ModuleKind::discard, "side", {linear_module("b", 3, 7)}),
                linear_module("c", 3, 1)});
  const Trained trained = train(model, initial_parameters(model), network_input);
  CHECK(worked(trained.trace, WorkKind::forward) == Names{"a", "side.b", "c"});
  CHECK(worked(trained.trace, WorkKind::backward) == Names{"c", "a"});
  CHECK_FALSE(trained.gradients[2].defined());
  const Model without = model_of({linear_module("a", 3, 3), linear_module("c", 3, 1)});
  const std::vector<Tensor> all = initial_parameters(model);
  CHECK(train(without, {all[0], all[1], all[4], all[5]}, network_input).loss == trained.loss);
}

TEST_CASE("no layer computes the gradient of an input that needs no gradient") {
  const Model model = model_of({linear_module("a", 3, 3), linear_module("b", 3, 3), linear_module("c", 3, 3)});
  CHECK(input_gradients(train(model, initial_parameters(model), network_input).trace) == 2);
}

TEST_CASE("backward ends where everything before is frozen") {
  Module frozen = module_of(ModuleKind::sequential, "frozen",
                            {linear_module("a", 3, 3), module_of(ModuleKind::relu, "relu"),
                             wide_module(ModuleKind::layer_norm, "norm", 3), module_of(ModuleKind::scale, "factor")});
  frozen.frozen = true;
  const Model model =
      model_of({frozen, module_of(ModuleKind::residual, "add", {linear_module("b", 3, 3)}), linear_module("c", 3, 1)});
  const Trained trained = train(model, initial_parameters(model), network_input);
  CHECK(worked(trained.trace, WorkKind::backward) == Names{"c", "add.b"});
  CHECK(input_gradients(trained.trace) == 1);

  Model all_frozen = model;
  all_frozen.root.frozen = true;
  const Trained nothing = train(all_frozen, initial_parameters(all_frozen), network_input);
  CHECK(worked(nothing.trace, WorkKind::backward).empty());
  CHECK(std::ranges::none_of(nothing.gradients, &Tensor::defined));
}

TEST_CASE("a frozen layer between others computes only the gradient of its input") {
  Module frozen = linear_module("b", 3, 3);
  frozen.frozen = true;
  const Model model = model_of({linear_module("a", 3, 3), frozen, linear_module("c", 3, 1)});
  const Trained trained = train(model, initial_parameters(model), network_input);
  CHECK(worked(trained.trace, WorkKind::backward) == Names{"c", "b", "a"});
  CHECK_FALSE(trained.gradients[2].defined());
  CHECK_FALSE(trained.gradients[3].defined());
}

TEST_CASE("a module fails once its hook has run, and nothing after it runs") {
  Watched watched(model_of({linear_module("0", 3, 3), linear_module("1", 3, 3)}));
  CHECK_THROWS_MATCHES(watched.forward({.fails_in = "1"}), PlannedFailure,
                       Catch::Matchers::Message("module \"1\" fails, as planned by the script"));
  CHECK(watched.seen == Names{"+", "+0", "-0", "+1"});
  CHECK(worked(watched.device.trace(), WorkKind::forward) == Names{"0"});
}

TEST_CASE("an error of a kernel names the module whose work failed") {
  Watched watched(model_of({module_of(ModuleKind::sequential, "inner", {linear_module("wide", 5, 3)})}));
  CHECK_THROWS_MATCHES(watched.forward({}), std::invalid_argument,
                       Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith("forward \"inner.wide\": ")));
}

TEST_CASE("a module runs alone, with its own hooks and no other") {
  Watched watched(
      model_of({module_of(ModuleKind::sequential, "inner", {linear_module("a", 3, 2)}), linear_module("b", 2, 1)}));
  CHECK(watched.forward({.module = "inner"}).value.shape() == Shape{2, 2});
  CHECK(watched.seen == Names{"+inner", "+inner.a", "-inner.a", "-inner"});
  CHECK_THROWS_AS(watched.forward({.module = "outer"}), std::invalid_argument);
}

TEST_CASE("parameters are read again in backward, wherever they are by then") {
  Watched watched(model_of({linear_module("a", 3, 3, false), linear_module("b", 3, 1, false)}));
  const Variable output = watched.forward();
  Parameter& weight = watched.network.parameters()[1];
  weight.value = Tensor::of<float>({1, 3}, std::vector<float>{0, 0, 0});
  play_back(watched.tape, output, Tensor::of<float>({2, 1}, std::vector<float>{1, 1}));
  CHECK(watched.network.parameters()[0].gradient == Tensor::host(DType::f32, {3, 3}));
}
