#include "suites/checks/playable.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "suites/checks/kind.hpp"

namespace shardproof::suites {

namespace {

// Whether a forward on these ways runs a module whose gradient reaches a trained parameter.
class Trained {
 public:
  explicit Trained(const Model& model) : model_(model), parameters_(parameters(model)) {}

  bool by(const Action& forward) const { return by(*find(model_, forward.module), forward.module, forward.paths); }

 private:
  using Kind = ModuleKind;

  bool by(const Module& module, const std::string& path, const std::map<std::string, std::string>& ways) const {
    switch (module.kind) {
      case Kind::discard:
      case Kind::list: return false;
      case Kind::use: return by(*find(model_, module.target), module.target, ways);
      case Kind::choice: {
        const Module& child = chosen_child(module, path, ways);
        return by(child, child_path(path, child.name), ways);
      }
      default: break;
    }
    const std::string& owner = module.tied_to.empty() ? path : module.tied_to;
    const auto is_own = [&](const ParameterShape& parameter) {
      return parameter.trainable && (parameter.name.substr(0, parameter.name.rfind('.')) == owner ||
                                     parameter.name.substr(0, parameter.name.rfind('.')) == path);
    };
    return std::ranges::any_of(parameters_, is_own) || std::ranges::any_of(module.children, [&](const Module& child) {
             return by(child, child_path(path, child.name), ways);
           });
  }

  const Model& model_;
  const std::vector<ParameterShape> parameters_;
};

// PyTorch refuses a backward of a loss that depends on no trained parameter.
bool may_reach_nothing(const Scenario& scenario) {
  const Trained trained(scenario.model);
  return any_call(scenario.script, [&](const Action& action) {
    return action.kind == ActionKind::forward && !action.fails_in && !trained.by(action);
  });
}

}  // namespace

bool is_playable(const Scenario& scenario) {
  return !kind_of(scenario.plan).may_leave_work(scenario) && !may_reach_nothing(scenario);
}

}  // namespace shardproof::suites
