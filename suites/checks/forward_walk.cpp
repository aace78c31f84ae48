#include "suites/checks/forward_walk.hpp"

namespace shardproof::suites {

ParametersByModule parameters_by_module(const Model& model) {
  ParametersByModule by_module;
  for (const ParameterShape& parameter : parameters(model)) {
    std::vector<std::string> names = parameter.aliases;
    names.push_back(parameter.name);
    for (const std::string& name : names) {
      const std::size_t dot = name.rfind('.');
      by_module[dot == std::string::npos ? "" : name.substr(0, dot)].push_back({parameter.name, parameter.trainable});
    }
  }
  return by_module;
}

bool ForwardWalk::run() {
  run_at(action_.module, false, true);
  return !has_failed_;
}

bool ForwardWalk::run_at(const std::string& path, bool needs_gradient, bool is_used) {
  return run(*find(scenario_.model, path), path, needs_gradient, is_used);
}

bool ForwardWalk::run(const Module& module, const std::string& path, bool needs_gradient, bool is_used) {
  if (has_failed_ || module.kind == ModuleKind::list) return needs_gradient;
  const bool is_itself = module.kind != ModuleKind::use;
  if (is_itself) before(path);
  has_failed_ = path == action_.fails_in;
  if (has_failed_) return needs_gradient;
  const bool output_needs = computed(module, path, needs_gradient, is_used);
  if (is_itself && !has_failed_) after(path, trains_ && output_needs && is_used);
  return output_needs;
}

bool ForwardWalk::computed(const Module& module, const std::string& path, bool needs_gradient, bool is_used) {
  switch (module.kind) {
    case ModuleKind::sequential: return children(module, path, needs_gradient, is_used);
    case ModuleKind::residual: return children(module, path, needs_gradient, is_used) || needs_gradient;
    case ModuleKind::discard: children(module, path, needs_gradient, false); return needs_gradient;
    case ModuleKind::use: return run_at(module.target, needs_gradient, is_used);
    case ModuleKind::choice: {
      const Module& child = chosen_child(module, path, action_.paths);
      return run(child, child_path(path, child.name), needs_gradient, is_used);
    }
    default: break;
  }
  const auto used = parameters_.find(path);
  if (used == parameters_.end()) return needs_gradient;
  for (const UsedParameter& parameter : used->second) {
    if (!parameter.trainable) continue;
    needs_gradient = true;
    if (trains_ && is_used) gets_gradient(parameter.name);
  }
  return needs_gradient;
}

bool ForwardWalk::children(const Module& module, const std::string& path, bool needs_gradient, bool is_used) {
  for (const Module& child : module.children)
    needs_gradient = run(child, child_path(path, child.name), needs_gradient, is_used);
  return needs_gradient;
}

}  // namespace shardproof::suites
