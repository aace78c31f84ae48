// Models for tests of layers, and functions that run them without an engine: parameters are whole and never move.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fixtures/engines/layers/losses.hpp"
#include "fixtures/engines/layers/network.hpp"
#include "harness/device/sim/sim_device.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

namespace shardproof::engines {

inline Module linear_module(std::string name, std::int64_t in, std::int64_t out, bool bias = true) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out, .bias = bias};
}

inline Module module_of(ModuleKind kind, std::string name, std::vector<Module> children = {}) {
  return {.name = std::move(name), .kind = kind, .children = std::move(children)};
}

inline Module wide_module(ModuleKind kind, std::string name, std::int64_t features) {
  return {.name = std::move(name), .kind = kind, .features = features};
}

inline Module convolution_module(std::string name, std::int64_t channels, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name),
          .kind = ModuleKind::convolution,
          .in_features = in,
          .out_features = out,
          .channels = channels};
}

inline Module use_of(std::string name, std::string target) {
  return {.name = std::move(name), .kind = ModuleKind::use, .target = std::move(target)};
}

/// A plan for `fully_shard` with these groups.
inline Plan plan_of(std::vector<WrapGroup> groups) {
  Plan plan;
  fully_shard_plan(plan).wrap = std::move(groups);
  return plan;
}

inline Model model_of(std::vector<Module> children, Loss loss = {}) {
  Model model;
  model.root.children = std::move(children);
  model.loss = loss;
  return model;
}

inline const ModuleHooks no_hooks{.before = [](const std::string&, Variable x) { return x; },
                                  .after = [](const std::string&, Variable y) { return y; }};

/// A backward from one value with this gradient.
inline void play_back(Tape& tape, const Variable& output, const Tensor& gradient) {
  tape.backward({{output, [&] { return gradient; }}});
}

/// By formula, in order of registration.
inline std::vector<Tensor> initial_parameters(const Model& model) {
  std::vector<Tensor> values;
  for (const ParameterShape& parameter : parameters(model)) {
    values.push_back(initial_value(model, values.size(), 0, parameter.shape));
  }
  return values;
}

struct Trained {
  double loss = 0;
  std::vector<Tensor> gradients;  ///< undefined for parameters without a gradient
  Trace trace;
};

/// One forward and one backward.
inline Trained train(const Model& model, const std::vector<Tensor>& parameters, const Tensor& input,
                     const Tensor& targets = {}, const std::string& module = "") {
  device::SimDevice device({}, 0);
  Network network(model);
  for (std::size_t i = 0; i < parameters.size(); ++i) network.parameters()[i].value = parameters[i];
  Tape tape(device);
  const Variable output = network.forward(device, tape, no_hooks, {input}, {.module = module});
  Trained result{.loss = loss(device, model.loss, output.value, targets).to_doubles()[0]};
  play_back(tape, output, loss_gradient(device, model.loss, output.value, targets));
  for (const Parameter& parameter : network.parameters()) {
    result.gradients.push_back(parameter.gradient.defined() ? parameter.gradient.clone() : Tensor{});
  }
  result.trace = device.take_trace();
  return result;
}

}  // namespace shardproof::engines
