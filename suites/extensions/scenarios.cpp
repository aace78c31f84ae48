#include "suites/extensions/scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "harness/scenario/plan/fully_shard.hpp"

namespace shardproof::extensions {

Module weight(std::string name, std::int64_t in, std::int64_t out, TensorKind kind) {
  return {.name = std::move(name),
          .kind = ModuleKind::linear,
          .in_features = in,
          .out_features = out,
          .bias = false,
          .tensor = kind};
}

Action extend(TensorKind kind, ExtensionKind extension, ExtensionForm form) {
  return {.kind = ActionKind::extend, .extension = Extension{.tensor = kind, .kind = extension, .form = form}};
}

Action extend(std::string parameter, ExtensionKind extension, ExtensionForm form) {
  return {.kind = ActionKind::extend,
          .extension = Extension{.parameter = std::move(parameter), .kind = extension, .form = form}};
}

ExtensionForm form_of(const Rank& rank) {
  return rank.param("form") == "full" ? ExtensionForm::full : ExtensionForm::minimal;
}

ReshardAfterForward reshard_of(const Rank& rank) {
  using Kind = ReshardAfterForward::Kind;
  return {rank.param<bool>("reshard") ? Kind::yes : Kind::no};
}

std::int64_t rows_for(const std::string& how, int world) {
  if (how == "even") return 2 * world;
  if (how == "uneven") return 2 * world + 1;
  if (how == "few") return std::max(1, world - 1);
  throw std::invalid_argument("rows must be even, uneven or few, not " + how);
}

Scenario blocks(const Blocks& how) {
  const std::int64_t hidden = 2 * how.rows + 4 - how.rows % 2;
  Scenario scenario;
  for (int i = 0; i < how.count; ++i) {
    const std::string name = std::to_string(i);
    std::vector<Module> layers{weight("in_proj", how.rows, hidden, how.kind),
                               {.name = "relu_in", .kind = ModuleKind::relu},
                               weight("out_proj", hidden, how.rows, how.kind)};
    // The weights of a single row may give outputs that a ReLU always blocks. Then earlier layers would have no
    // gradient.
    if (how.rows > 1) layers.push_back({.name = "relu_out", .kind = ModuleKind::relu});
    scenario.model.root.children.push_back({.name = name, .children = std::move(layers)});
    fully_shard_plan(scenario.plan).wrap.push_back({{name}, how.reshard});
  }
  fully_shard_plan(scenario.plan).wrap.push_back({{""}, how.reshard});
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 64};
  scenario.model.init_divisor = how.rows > 1 ? 16 : 4;  // what passes neither grows nor dies away from block to block
  scenario.plan.optimizer = how.optimizer;
  scenario.script.input = {4, how.rows};
  return scenario;
}

void train(Scenario& scenario, int iterations, const std::vector<Action>& before) {
  scenario.script.keep_tensors = true;
  const std::vector<Action> iteration{{ActionKind::forward},
                                      {ActionKind::backward},
                                      {ActionKind::step},
                                      {ActionKind::capture},
                                      {ActionKind::zero_grad}};
  std::vector<Action> first = before;
  first.insert(first.end(), iteration.begin(), iteration.end());
  scenario.script.segments = {{.iterations = 1, .body = std::move(first)}};
  if (iterations > 1) scenario.script.segments.push_back({.iterations = iterations - 1, .body = iteration});
}

Scenario layers(const std::vector<TensorKind>& kinds, ReshardAfterForward reshard) {
  const std::int64_t widths[] = {4, 6, 3};
  Scenario scenario;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string name = fmt::format("l{}", i);
    scenario.model.root.children.push_back(weight(name, widths[i % 3], widths[(i + 1) % 3], kinds[i]));
    fully_shard_plan(scenario.plan).wrap.push_back({{name}, reshard});
  }
  fully_shard_plan(scenario.plan).wrap.push_back({{""}, reshard});
  scenario.model.loss = {.kind = LossKind::dot};
  scenario.model.init_divisor = 1;
  scenario.plan.optimizer = {.rate = 0.0625};
  scenario.script.input = {2, widths[0]};
  scenario.script.input_divisor = 1;
  return scenario;
}

}  // namespace shardproof::extensions
