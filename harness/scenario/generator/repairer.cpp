#include <algorithm>
#include <string>
#include <vector>

#include "harness/scenario/generator/alterations.hpp"
#include "harness/scenario/generator/engine_generator.hpp"

namespace shardproof::scenario {

namespace {

class ScenarioRepairer {
 public:
  ScenarioRepairer(Scenario& scenario, int ranks)
      : scenario_(scenario), played_by_(ranks), ranks_(std::max(ranks, scenario.device.imagined_ranks)) {}

  void repair() {
    while (drop_lost_uses()) {
    }
    change_modules(scenario_.model.root, [&](Module& module) {
      if (!module.tied_to.empty() && find(scenario_.model, module.tied_to) == nullptr) module.tied_to.clear();
    });
    repair_plan();
    for (Script::Segment& segment : scenario_.script.segments) {
      std::erase_if(segment.body, [&](Action& action) {
        drop_lost_ways(action);
        return !keep_ranks(action) || is_lost(action);
      });
      for (Action& action : segment.body) {
        if (action.hook) std::erase_if(action.hook->fails_on, [&](int rank) { return rank >= played_by_; });
      }
    }
    std::erase_if(scenario_.script.segments, [](const Script::Segment& segment) { return segment.body.empty(); });
    repair_costs();
  }

 private:
  bool has_module(const std::string& path) const { return find(scenario_.model, path) != nullptr; }

  bool has_parameter(const std::string& name) const {
    const std::vector<ParameterShape> all = parameters(scenario_.model);
    return std::ranges::find(all, name, &ParameterShape::name) != all.end();
  }

  bool holds_wrapped(const std::string& path) const {
    return std::ranges::any_of(scenario_.plan.engine.get()->wrapped_modules(),
                               [&](const std::string& wrapped) { return is_at_or_under(wrapped, path); });
  }

  bool drop_lost_uses() {
    std::size_t dropped = 0;
    change_modules(scenario_.model.root, [&](Module& module) {
      dropped += std::erase_if(module.children, [&](const Module& child) {
        return child.kind == ModuleKind::use && !has_module(child.target);
      });
    });
    return dropped > 0;
  }

  void repair_plan() {
    Plan& plan = scenario_.plan;
    int meshed = 1;
    for (const int size : plan.mesh.shape) meshed *= size;
    if (!plan.mesh.shape.empty() && meshed != ranks_) plan.mesh = {};
    const int shards = plan.mesh.shape.size() == 2 ? plan.mesh.shape[1] : ranks_;
    engine_generator(plan).repair(scenario_, shards);
  }

  void repair_costs() {
    const auto is_group = [&](const std::string& name) { return has_group(scenario_, name); };
    std::erase_if(scenario_.costs.tagged_collectives, [&](const auto& entry) {
      const std::string& tag = entry.first.second;
      if (tag == extension_sizes_tag)
        return !extends() || (entry.second == 0 && !scenario_.costs.collectives.contains(entry.first.first));
      return tag != gradient_norm_tag && !is_group(tag);
    });
    std::erase_if(scenario_.costs.labelled_work, [&](const auto& entry) {
      const auto& [kind, label] = entry.first;
      if (kind == WorkKind::forward || kind == WorkKind::backward) return !has_module(label);
      return kind == WorkKind::optimizer ? !has_parameter(label) : !is_group(label);
    });
  }

  void drop_lost_ways(Action& action) const {
    std::erase_if(action.paths, [&](const auto& way) {
      const Module* const choice = find(scenario_.model, way.first);
      return choice == nullptr || choice->kind != ModuleKind::choice ||
             std::ranges::find(choice->children, way.second, &Module::name) == choice->children.end();
    });
  }

  // Whether any rank still makes the call.
  bool keep_ranks(Action& action) const {
    if (action.ranks.empty()) return true;
    std::erase_if(action.ranks, [&](int rank) { return rank >= played_by_; });
    return !action.ranks.empty();
  }

  bool extends() const {
    return any_call(scenario_.script, [](const Action& action) { return action.kind == ActionKind::extend; });
  }

  bool is_lost(const Action& action) const {
    if (!has_module(action.module) || (action.fails_in && !has_module(*action.fails_in))) return true;
    switch (action.kind) {
      case ActionKind::materialize:
      case ActionKind::initialize: return scenario_.plan.initialisation != Initialisation::meta;
      case ActionKind::extend: {
        if (!action.extension->parameter.empty()) return !has_parameter(action.extension->parameter);
        const std::vector<ParameterShape> all = parameters(scenario_.model);
        return std::ranges::find(all, action.extension->tensor, &ParameterShape::tensor) == all.end();
      }
      case ActionKind::register_hook:
        return !holds_wrapped(action.module) || !scenario_.plan.engine.get()->objection_to_call(action).empty();
      case ActionKind::unshard:
      case ActionKind::wait_for_unshard:
      case ActionKind::reshard:
      case ActionKind::set_requires_gradient_sync:
      case ActionKind::set_requires_all_reduce:
      case ActionKind::set_reshard_after_backward:
      case ActionKind::set_unshard_in_backward: return !holds_wrapped(action.module);
      default: return false;
    }
  }

  Scenario& scenario_;
  const int played_by_;
  const int ranks_;  // the number of ranks that engines see
};

}  // namespace

void drop_what_is_lost(Scenario& scenario, int ranks) { ScenarioRepairer(scenario, ranks).repair(); }

}  // namespace shardproof::scenario
