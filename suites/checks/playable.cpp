#include "suites/checks/playable.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "harness/scenario/plan/fully_shard.hpp"

namespace shardproof::suites {

namespace {

using namespace scenario;

// A backward that stops before its last work, by a switch, leaves work to a later backward. A root that the later backward does not reach
// keeps that work for ever: the script is wrong, and no engine is.
bool may_leave_work(const Scenario& scenario) {
  if (scenario.plan.engine.get()->kind() != fully_shard_kind.name) return false;
  const bool is_one_root = std::ranges::any_of(
      fully_shard(scenario.plan).wrap, [](const WrapGroup& group) { return std::ranges::find(group.modules, "") != group.modules.end(); });
  const auto takes_ways = [](const Action& action) { return !action.paths.empty(); };
  const auto leaves = [](const Action& action) {
    using Kind = ActionKind;
    return action.kind == Kind::set_requires_gradient_sync || action.kind == Kind::set_is_last_backward ||
           action.kind == Kind::set_requires_all_reduce;
  };
  return !is_one_root && any_call(scenario.script, takes_ways) && any_call(scenario.script, leaves);
}

// Whether a forward on these ways runs a module whose gradient leads to a parameter that is trained.
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
      return parameter.trainable &&
             (parameter.name.substr(0, parameter.name.rfind('.')) == owner || parameter.name.substr(0, parameter.name.rfind('.')) == path);
    };
    return std::ranges::any_of(parameters_, is_own) ||
           std::ranges::any_of(module.children, [&](const Module& child) { return by(child, child_path(path, child.name), ways); });
  }

  const Model& model_;
  const std::vector<ParameterShape> parameters_;
};

// PyTorch refuses a backward of a loss that leads to no trained parameter.
bool may_reach_nothing(const Scenario& scenario) {
  const Trained trained(scenario.model);
  return any_call(scenario.script,
                  [&](const Action& action) { return action.kind == ActionKind::forward && !action.fails_in && !trained.by(action); });
}

}  // namespace

bool is_playable(const Scenario& scenario) { return !may_leave_work(scenario) && !may_reach_nothing(scenario); }

}  // namespace shardproof::suites
