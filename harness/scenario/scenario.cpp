#include "harness/scenario/scenario.hpp"
#include "harness/base/enum_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/base/closest.hpp"
#include "harness/scenario/formula.hpp"

namespace shardproof {

namespace {

// The first embedding of a model comes before all modules that take features.
const Module* first_embedding(const Module& module) {
  if (module.kind == ModuleKind::embedding) return &module;
  if (module.kind == ModuleKind::list) return nullptr;
  for (const Module& child : module.children) {
    if (const Module* found = first_embedding(child)) return found;
  }
  return nullptr;
}

}  // namespace

bool is_container(ModuleKind kind) {
  switch (kind) {
    case ModuleKind::sequential:
    case ModuleKind::residual:
    case ModuleKind::discard:
    case ModuleKind::list:
    case ModuleKind::choice: return true;
    case ModuleKind::linear:
    case ModuleKind::convolution:
    case ModuleKind::relu:
    case ModuleKind::scale:
    case ModuleKind::embedding:
    case ModuleKind::layer_norm:
    case ModuleKind::attention:
    case ModuleKind::use: return false;
  }
  return false;
}

bool has_parameters(ModuleKind kind) {
  switch (kind) {
    case ModuleKind::linear:
    case ModuleKind::convolution:
    case ModuleKind::scale:
    case ModuleKind::embedding:
    case ModuleKind::layer_norm:
    case ModuleKind::attention: return true;
    case ModuleKind::sequential:
    case ModuleKind::relu:
    case ModuleKind::residual:
    case ModuleKind::discard:
    case ModuleKind::list:
    case ModuleKind::choice:
    case ModuleKind::use: return false;
  }
  return false;
}

bool is_linear_map(ModuleKind kind) { return kind == ModuleKind::linear || kind == ModuleKind::convolution; }

void visit(const Module& module, const std::string& path,
           const std::function<void(const Module&, const std::string&)>& each) {
  each(module, path);
  for (const Module& child : module.children) visit(child, child_path(path, child.name), each);
}

std::string_view to_string(ModuleKind kind) {
  return base::name_of<ModuleKind::use>(
      kind, {"sequential", "linear", "convolution", "relu", "scale", "embedding", "layer_norm", "attention", "residual",
             "discard", "list", "choice", "use"});
}

std::string_view to_string(LossKind kind) {
  return base::name_of<LossKind::cross_entropy>(kind, {"sum", "sum_of_squares", "dot", "cross_entropy"});
}

std::string_view to_string(Distribution distribution) {
  return distribution == Distribution::truncated_normal ? "truncated_normal" : "uniform";
}

std::string_view to_string(TensorKind kind) {
  return base::name_of<TensorKind::low_precision>(kind, {"plain", "two_tensor", "low_precision"});
}

std::string_view to_string(ExtensionKind kind) {
  return base::name_of<ExtensionKind::truncated>(kind, {"components", "bf16", "int8", "unpadded", "truncated"});
}

std::string_view to_string(HookPoint point) {
  return base::name_of<HookPoint::after_accumulation>(point, {"reduction", "after_reduction", "after_accumulation"});
}

std::string_view to_string(HookKind kind) {
  return base::name_of<HookKind::not_callable>(
      kind, {"plain", "doubled", "sum", "fp16_compress", "bf16_compress", "not_callable"});
}

std::string_view to_string(ExtensionForm form) { return form == ExtensionForm::minimal ? "minimal" : "full"; }

bool is_for(const Action& action, int rank) {
  return action.ranks.empty() || std::ranges::find(action.ranks, rank) != action.ranks.end();
}

bool registers_compression(const Action& action) {
  return action.hook && (action.hook->kind == HookKind::fp16_compress || action.hook->kind == HookKind::bf16_compress);
}

int batch_of(const Scenario& scenario, int rank) {
  const EngineSection* const section = scenario.plan.engine.get();
  return section == nullptr ? rank : rank / section->ranks_per_copy(scenario.plan.mesh);
}

bool any_call(const Script& script, const std::function<bool(const Action&)>& is) {
  return std::ranges::any_of(script.segments,
                             [&](const Script::Segment& segment) { return std::ranges::any_of(segment.body, is); });
}

bool any_module(const Scenario& scenario, const std::function<bool(const Module&)>& is) {
  bool found = false;
  visit(scenario.model.root, "", [&](const Module& module, const std::string&) { found = found || is(module); });
  return found;
}

std::string child_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

bool is_at_or_under(std::string_view path, std::string_view ancestor) {
  return ancestor.empty() || path == ancestor || (path.starts_with(ancestor) && path[ancestor.size()] == '.');
}

std::vector<std::string> paths(const Model& model) {
  std::vector<std::string> all;
  visit(model.root, "", [&](const Module&, const std::string& path) { all.push_back(path); });
  return all;
}

const Module* find(const Model& model, std::string_view path) {
  const Module* found = nullptr;
  visit(model.root, "", [&](const Module& module, const std::string& here) {
    if (here == path) found = &module;
  });
  return found;
}

std::string no_such_child(const Module& choice, const std::string& path, const std::string& child) {
  std::set<std::string> names;
  for (const Module& each : choice.children) names.insert(each.name);
  return fmt::format("the choice \"{}\" has no child \"{}\"; {}", path, child, base::closest_or_all(names, child));
}

const Module& chosen_child(const Module& choice, const std::string& path,
                           const std::map<std::string, std::string>& paths) {
  const auto named = paths.find(path);
  const auto child =
      named == paths.end() ? choice.children.begin() : std::ranges::find(choice.children, named->second, &Module::name);
  if (child == choice.children.end())
    throw std::invalid_argument(named == paths.end() ? fmt::format("the choice \"{}\" has no child to run", path)
                                                     : no_such_child(choice, path, named->second));
  return *child;
}

namespace {

std::vector<ParameterShape> own_parameters(const Module& module) {
  const Shape square{module.features, module.features};
  std::vector<ParameterShape> own;
  switch (module.kind) {
    case ModuleKind::linear:
      if (module.tied_to.empty())
        own.push_back({.name = "weight",
                       .shape = {module.out_features, module.in_features},
                       .contiguous = module.contiguous,
                       .tensor = module.tensor,
                       .aliases = {}});
      if (module.bias) own.push_back({.name = "bias", .shape = {module.out_features}, .aliases = {}});
      break;
    case ModuleKind::convolution:
      own.push_back({.name = "weight",
                     .shape = {module.out_features, module.channels, module.in_features / module.channels},
                     .tensor = module.tensor,
                     .aliases = {}});
      if (module.bias) own.push_back({.name = "bias", .shape = {module.out_features}, .aliases = {}});
      break;
    case ModuleKind::scale:
      own.push_back({.name = "factor", .shape = module.scalar ? Shape{} : Shape{1}, .aliases = {}});
      break;
    case ModuleKind::embedding:
      if (module.positions > 0)
        own.push_back({.name = "positions", .shape = {module.positions, module.features}, .aliases = {}});
      own.push_back({.name = "weight", .shape = {module.vocabulary, module.features}, .aliases = {}});
      break;
    case ModuleKind::layer_norm:
      for (const char* name : {"weight", "bias"})
        own.push_back({.name = name, .shape = {module.features}, .aliases = {}});
      break;
    case ModuleKind::attention:
      for (const char* name : {"query", "key", "value", "output"})
        own.push_back({.name = name, .shape = square, .aliases = {}});
      break;
    case ModuleKind::sequential:
    case ModuleKind::relu:
    case ModuleKind::residual:
    case ModuleKind::discard:
    case ModuleKind::list:
    case ModuleKind::choice:
    case ModuleKind::use: break;
  }
  return own;
}

}  // namespace

std::vector<ParameterShape> parameters(const Model& model) {
  std::vector<ParameterShape> all;
  std::vector<std::string> frozen;  // paths
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (module.frozen) frozen.push_back(path);
    for (ParameterShape& parameter : own_parameters(module)) {
      parameter.name = child_path(path, parameter.name);
      parameter.trainable =
          std::ranges::none_of(frozen, [&](const std::string& above) { return is_at_or_under(path, above); });
      all.push_back(std::move(parameter));
    }
  });
  visit(model.root, "", [&](const Module& module, const std::string& path) {
    if (module.kind != ModuleKind::linear || module.tied_to.empty()) return;
    const auto owner = std::ranges::find(all, child_path(module.tied_to, "weight"), &ParameterShape::name);
    if (owner != all.end()) owner->aliases.push_back(child_path(path, "weight"));
  });
  return all;
}

Tensor initial_value(const Model& model, std::size_t parameter, std::size_t component, const Shape& shape) {
  const auto seed = static_cast<std::uint32_t>(1 + 500 * component + parameter);
  return model.init == Distribution::truncated_normal ? formula::truncated_normal(seed, shape, model.init_divisor)
                                                      : formula::tensor(seed, shape, model.init_divisor);
}

bool keeps_low_precision(const Scenario& scenario) {
  const std::vector<ParameterShape> all = parameters(scenario.model);
  return std::ranges::any_of(all, [&](const ParameterShape& parameter) {
    return scenario.plan.engine.get()->dtype_of(parameter.name) != DType::f32;
  });
}

std::int64_t vocabulary(const Model& model) {
  const Module* embedding = first_embedding(model.root);
  return embedding != nullptr ? embedding->vocabulary : 0;
}

Tensor dot_row(const Loss& loss, std::int64_t features) {
  return formula::tensor(loss.dot_seed, {features}, static_cast<int>(loss.divisor));
}

}  // namespace shardproof
