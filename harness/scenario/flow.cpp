#include "harness/scenario/flow.hpp"

#include <fmt/format.h>

#include <utility>

#include "harness/scenario/refusal.hpp"

namespace shardproof::scenario {

namespace {

Flow rows(Flow in, const Model& model, const std::string& path) {
  if (in.tokens) fail(place_of(model, path), "takes features, but tokens arrive");
  return in;
}

void take(std::int64_t features, Flow in, const Model& model, const std::string& path) {
  if (rows(in, model, path).features != features)
    fail(place_of(model, path), fmt::format("takes {} features, but {} arrive", features, in.features));
}

}  // namespace

FlowCheck::FlowCheck(const Model& model, const Shape& input, std::map<std::string, std::string> paths)
    : model_(model), positions_(input[1]), tokens_(vocabulary(model) > 0), paths_(std::move(paths)) {}

Flow FlowCheck::through(const Module& module, const std::string& path, Flow in) {
  constexpr int most = 100'000;
  if (++runs_ > most) fail(place_of(model_, path), fmt::format("more than {} modules run in one forward", most));
  if (module.kind != ModuleKind::list) ran_.insert(path);
  switch (module.kind) {
    case ModuleKind::list: return in;
    case ModuleKind::sequential: return children(module, path, in);
    case ModuleKind::discard: children(module, path, in); return in;
    case ModuleKind::residual: {
      const Flow out = children(module, path, rows(in, model_, path));
      if (out.features != in.features)
        fail(place_of(model_, path), fmt::format("adds {} features to the {} that arrive", out.features, in.features));
      return out;
    }
    case ModuleKind::linear:
    case ModuleKind::convolution: take(module.in_features, in, model_, path); return {module.out_features};
    case ModuleKind::layer_norm: take(module.features, in, model_, path); return in;
    case ModuleKind::attention:
      take(module.features, in, model_, path);
      if (!tokens_)
        fail(place_of(model_, path), "attends to the positions of a sequence, but the model takes no tokens");
      return in;
    case ModuleKind::relu:
    case ModuleKind::scale: return rows(in, model_, path);
    case ModuleKind::embedding:
      if (!in.tokens) fail(place_of(model_, path), fmt::format("takes tokens, but {} features arrive", in.features));
      if (module.vocabulary < vocabulary(model_))
        fail(place_of(model_, path),
             fmt::format("knows {} tokens, but the model gets {}", module.vocabulary, vocabulary(model_)));
      if (module.positions != 0 && module.positions != in.features)
        fail(place_of(model_, path),
             fmt::format("has {} positions, but sequences of {} tokens arrive", module.positions, in.features));
      return {module.features};
    case ModuleKind::choice: return chosen(module, path, in);
    case ModuleKind::use: return used(module, path, in);
  }
  return in;
}

Flow FlowCheck::children(const Module& module, const std::string& path, Flow flow) {
  for (const Module& child : module.children) flow = through(child, child_path(path, child.name), flow);
  return flow;
}

Flow FlowCheck::chosen(const Module& module, const std::string& path, Flow in) {
  const Module& child = chosen_child(module, path, paths_);
  return through(child, child_path(path, child.name), in);
}

Flow FlowCheck::used(const Module& module, const std::string& path, Flow in) {
  const Module* target = find(model_, module.target);
  if (target == nullptr) fail(place_of(model_, path), no_such_module(model_, module.target));
  if (target->kind == ModuleKind::list)
    fail(place_of(model_, path), fmt::format("\"{}\" is a list, which has no forward", module.target));
  if (!running_.insert(path).second) fail(place_of(model_, path), "runs itself");
  const Flow out = through(*target, module.target, in);
  running_.erase(path);
  return out;
}

}  // namespace shardproof::scenario

std::int64_t shardproof::output_features(const Scenario& scenario) {
  scenario::FlowCheck flow(scenario.model, scenario.script.input);
  return flow.through(scenario.model.root, "", flow.input()).features;
}
