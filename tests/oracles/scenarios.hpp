// Small scenarios for tests of the serial model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/oracles/rounding.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::oracles {

inline Module linear(std::string name, std::int64_t in, std::int64_t out, bool bias = true) {
  return {.name = std::move(name),
          .kind = ModuleKind::linear,
          .in_features = in,
          .out_features = out,
          .bias = bias,
          .children = {}};
}

inline Module convolution(std::string name, std::int64_t channels, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name),
          .kind = ModuleKind::convolution,
          .in_features = in,
          .out_features = out,
          .channels = channels,
          .children = {}};
}

inline Module relu(std::string name) { return {.name = std::move(name), .kind = ModuleKind::relu, .children = {}}; }

inline Module scale(std::string name) { return {.name = std::move(name), .kind = ModuleKind::scale, .children = {}}; }

inline Module embedding(std::string name, std::int64_t vocabulary, std::int64_t features, std::int64_t positions) {
  return {.name = std::move(name),
          .kind = ModuleKind::embedding,
          .features = features,
          .vocabulary = vocabulary,
          .positions = positions,
          .children = {}};
}

inline Module layer_norm(std::string name, std::int64_t features) {
  return {.name = std::move(name), .kind = ModuleKind::layer_norm, .features = features, .children = {}};
}

inline Module attention(std::string name, std::int64_t features) {
  return {.name = std::move(name), .kind = ModuleKind::attention, .features = features, .children = {}};
}

inline Module container(ModuleKind kind, std::string name, std::vector<Module> children) {
  return {.name = std::move(name), .kind = kind, .children = std::move(children)};
}

inline Module residual(std::string name, std::vector<Module> children) {
  return container(ModuleKind::residual, std::move(name), std::move(children));
}

inline Module use(std::string name, std::string target) {
  return {.name = std::move(name), .kind = ModuleKind::use, .target = std::move(target), .children = {}};
}

inline Module frozen(Module module) {
  module.frozen = true;
  return module;
}

/// A scenario with a wrapped root. The test adds the script.
inline Scenario sharded(std::vector<Module> children) {
  Scenario scenario;
  scenario.model.root.children = std::move(children);
  fully_shard_plan(scenario.plan).wrap.push_back({.modules = {""}, .forward_prefetch = {}, .backward_prefetch = {}});
  scenario.script.input = {1, 1};
  return scenario;
}

/// One linear layer 1→1 without bias on one element, loss sum: the gradient is the input.
inline Scenario one_weight() { return sharded({linear("l", 1, 1, false)}); }

inline double input(int iteration, int rank) {
  return formula::small_integer(static_cast<std::uint32_t>(1000 + 100 * iteration + rank), 0) / 8.0;
}

inline double bf16(double value) { return rounded_to(DType::bf16, value); }

/// Plays each body once, as its own iteration.
inline std::vector<Script::Segment> script(std::vector<std::vector<Action>> bodies) {
  std::vector<Script::Segment> segments;
  for (std::vector<Action>& body : bodies) segments.push_back({1, std::move(body)});
  return segments;
}

inline const Action forward{.kind = ActionKind::forward}, backward{.kind = ActionKind::backward},
    step{.kind = ActionKind::step}, zero_grad{.kind = ActionKind::zero_grad}, capture{.kind = ActionKind::capture},
    evaluate{.kind = ActionKind::evaluate};

inline Action set(ActionKind what, std::string module, bool value) {
  return {.kind = what, .module = std::move(module), .value = value};
}

}  // namespace shardproof::oracles
