#include "suites/checks/fully_shard_calls.hpp"
#include "suites/checks/script_walk.hpp"

#include <algorithm>
#include <utility>

namespace shardproof::suites {

namespace {

// Whether each backward follows one forward.
bool alternates(const Script& script) {
  bool is_between = false;
  for (const Script::Segment& segment : script.segments) {
    for (int i = 0; i < std::min(segment.iterations, 2); ++i) {
      for (const Action& action : segment.body) {
        if (action.kind == ActionKind::backward) is_between = false;
        if (action.kind != ActionKind::forward || action.fails_in) continue;
        if (std::exchange(is_between, true)) return false;
      }
    }
  }
  return true;
}

// Whether the output is the same tensor as the input.
bool hands_on(const Module& module) {
  switch (module.kind) {
    case ModuleKind::discard: return true;
    case ModuleKind::sequential: return std::ranges::all_of(module.children, hands_on);
    case ModuleKind::choice: return std::ranges::any_of(module.children, hands_on);
    default: return false;
  }
}

// Whether a wrapped module without parameters returns its input, and its output is discarded. A backward that reaches
// the input then reaches the module, too. A group with parameters gives its modules their own tensor, so this does not
// happen there.
bool is_reached_by_its_input(const Scenario& scenario) {
  const FullyShardPlan& plan = fully_shard_plan(scenario.plan);
  const auto all = parameters(scenario.model);
  const auto is_within_discard = [&](const std::string& path) {
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
      if (find(scenario.model, path.substr(0, dot))->kind == ModuleKind::discard) return true;
    }
    return false;
  };
  return std::ranges::any_of(plan.wrap, [&](const WrapGroup& group) {
    if (std::ranges::any_of(all, [&](const auto& parameter) { return plan.group_of(parameter.name) == &group; }))
      return false;
    return std::ranges::any_of(group.modules, [&](const std::string& path) {
      return hands_on(*find(scenario.model, path)) && is_within_discard(path);
    });
  });
}

bool gathers_by_lists(const FullyShardPlan& plan) {
  return std::ranges::any_of(plan.wrap, [](const WrapGroup& group) {
    return !group.forward_prefetch.empty() || !group.backward_prefetch.empty();
  });
}

}  // namespace

bool can_follow_groups(const Scenario& scenario) {
  const bool repeats = any_module(scenario, [](const Module& module) { return module.kind == ModuleKind::use; });
  const auto all = parameters(scenario.model);
  const bool shares =
      std::ranges::any_of(all, [](const ParameterShape& parameter) { return !parameter.aliases.empty(); });
  return !repeats && !shares && is_for_all_ranks(scenario.script) && alternates(scenario.script) &&
         !is_reached_by_its_input(scenario);
}

// One forward of the script. The caller drops the state that a failing forward has begun.
class GroupCalls::Forward final : public ForwardWalk {
 public:
  Forward(GroupCalls& calls, const Action& action)
      : ForwardWalk(calls.scenario_, calls.parameters_of_, action), calls_(calls) {}

  const Pending& pending() const { return pending_; }

 private:
  // The first module of a group gathers for all modules of the group.
  void before(const std::string& path) override {
    const auto place = calls_.group_of_.find(path);
    if (place == calls_.group_of_.end()) return;
    Group& group = *place->second;
    Root& root = calls_.root_of(group);
    if (!std::exchange(root.is_running, true)) root.running = path;
    if (!group.running.empty()) return;
    group.running.insert(group.plan->modules.begin(), group.plan->modules.end());
    calls_.gather(group);
  }

  void after(const std::string& path, bool is_reached) override {
    const auto place = calls_.group_of_.find(path);
    if (place == calls_.group_of_.end()) return;
    Group& group = *place->second;
    if (is_reached) {
      pending_.groups.insert(&group);
      pending_.roots.insert(group.root);
    }
    group.running.erase(path);
    if (group.running.empty()) finish(group);
    if (group.root->is_running && group.root->running == path) end(*group.root, is_reached);
  }

  void gets_gradient(const std::string& parameter) override {
    if (calls_.plan_.group_of(parameter) != nullptr) pending_.parameters.insert(parameter);
  }

  // A group with a module that has not run ends with its root. Its backward may then begin with the root's backward,
  // needed or not.
  void end(Root& root, bool is_reached) {
    for (Group* const group : root.groups) {
      if (std::exchange(group->running, {}).empty()) continue;
      finish(*group);
      if (is_reached) pending_.incomplete.insert(group);
    }
    root.is_running = false;
  }

  void finish(Group& group) {
    calls_.finish(group);
    group.was_forward = group.was_forward || trains();
  }

  GroupCalls& calls_;
  Pending pending_;
};

GroupCalls::GroupCalls(const Scenario& scenario, int world)
    : scenario_(scenario),
      plan_(fully_shard_plan(scenario.plan)),
      parameters_of_(parameters_by_module(scenario.model)) {
  const std::vector<int>& mesh = scenario.plan.mesh.shape;
  shards_ = mesh.size() == 2 ? mesh[1] : world;
  replicas_ = world / shards_;
  for (const WrapGroup& plan : plan_.wrap) {
    Group& group = groups_.emplace_back();
    group.plan = &plan;
    for (const std::string& module : plan.modules) group_of_[module] = &group;
  }
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    if (const WrapGroup* const plan = plan_.group_of(parameter.name))
      groups_.at(static_cast<std::size_t>(plan - plan_.wrap.data())).parameters.insert(parameter.name);
  }
  may_gather_in_vain_ = gathers_by_lists(plan_);
}

std::size_t GroupCalls::whole_parameters() const {
  std::size_t count = 0;
  for (const Group& group : groups_) count += group.is_whole ? group.parameters.size() : 0;
  return count;
}

bool GroupCalls::is_gathering() const { return std::ranges::any_of(groups_, &Group::is_gathering); }

void GroupCalls::make(const Action& action) {
  const auto each = [&](auto&& change) {
    for (Group* const group : at_or_under(action.module)) change(*group);
  };
  switch (action.kind) {
    case ActionKind::forward:
    case ActionKind::evaluate: return forward(action);
    case ActionKind::backward: return backward();
    // Whole parameters are older than the shards now.
    case ActionKind::step:
      for (Group& group : groups_) group.is_whole = group.is_gathering = false;
      return;
    case ActionKind::zero_grad: waiting_.clear(); return;
    case ActionKind::unshard:
      return each([&](Group& group) {
        if (group.is_whole) return;
        gather(group);
        group.is_gathering = action.async;
        group.is_whole = !action.async;
      });
    case ActionKind::wait_for_unshard:
      return each([](Group& group) { group.is_whole = std::exchange(group.is_gathering, false) || group.is_whole; });
    case ActionKind::reshard: return each([](Group& group) { group.is_whole = false; });
    case ActionKind::set_requires_gradient_sync:
      return each([&](Group& group) { group.reduces = group.all_reduces = action.value; });
    case ActionKind::set_requires_all_reduce: return each([&](Group& group) { group.all_reduces = action.value; });
    case ActionKind::set_reshard_after_backward:
      return each([&](Group& group) { group.frees_after_backward = action.value; });
    case ActionKind::set_unshard_in_backward:
      return each([&](Group& group) { group.gathers_in_backward = action.value; });
    case ActionKind::set_is_last_backward: is_last_backward_ = action.value; return;
    default: return;
  }
}

void GroupCalls::gather(Group& group) {
  if (group.is_whole || group.parameters.empty()) return;
  const bool is_on_its_way = std::exchange(group.is_gathering, false);
  if (!is_on_its_way && shards_ > 1) ++communication_.all_gathers;
  group.is_whole = true;
}

void GroupCalls::finish(Group& group) {
  using Reshard = ReshardAfterForward::Kind;
  const ReshardAfterForward& reshard = group.plan->reshard_after_forward;
  const bool keeps = reshard.kind == Reshard::no || (reshard.kind == Reshard::size && reshard.size == 1) ||
                     (reshard.kind == Reshard::automatic && &group == group.root->groups.front());
  if (!keeps) group.is_whole = false;
}

// The wrapped module that runs first is the root of all wrapped modules under it.
GroupCalls::Root& GroupCalls::root_of(Group& group) {
  if (group.root != nullptr) return *group.root;
  Root& root = roots_.emplace_back();
  root.groups.push_back(&group);
  for (Group* const under : at_or_under(group.plan->modules.front())) {
    if (under != &group) root.groups.push_back(under);
  }
  for (Group* const each : root.groups) each->root = &root;
  return root;
}

std::vector<GroupCalls::Group*> GroupCalls::at_or_under(const std::string& path) {
  std::vector<Group*> found;
  for (Group& group : groups_) {
    if (std::ranges::any_of(group.plan->modules,
                            [&](const std::string& module) { return is_at_or_under(module, path); }))
      found.push_back(&group);
  }
  return found;
}

void GroupCalls::forward(const Action& action) {
  Forward forward(*this, action);
  if (forward.run()) {
    pending_.groups.insert(forward.pending().groups.begin(), forward.pending().groups.end());
    pending_.incomplete.insert(forward.pending().incomplete.begin(), forward.pending().incomplete.end());
    pending_.roots.insert(forward.pending().roots.begin(), forward.pending().roots.end());
    pending_.parameters.insert(forward.pending().parameters.begin(), forward.pending().parameters.end());
    return;
  }
  for (Root& root : roots_) {
    root.is_running = false;
    for (Group* const group : root.groups) {
      group->running.clear();
      group->is_whole = group->is_gathering = false;
    }
  }
}

void GroupCalls::backward() {
  const Pending now = std::exchange(pending_, {});
  const bool gathers_ahead = plan_.backward_prefetch == BackwardPrefetch::previous;
  if (gathers_ahead && !is_last_backward_) may_gather_in_vain_ = true;
  for (Group& group : groups_) {
    const bool is_needless = group.was_forward && !now.groups.contains(&group) && !group.is_whole;
    if (gathers_ahead && is_needless && group.gathers_in_backward) may_gather_in_vain_ = true;
  }
  for (const Group* const group : now.incomplete) {
    if (!group->gathers_in_backward) continue;
    may_gather_in_vain_ = true;
    may_be_whole_in_vain_ = may_be_whole_in_vain_ || !group->frees_after_backward;
  }
  for (Group* const group : now.groups) {
    if (group->gathers_in_backward) gather(*group);
  }
  waiting_.insert(now.parameters.begin(), now.parameters.end());
  for (Root* const root : now.roots) {
    for (Group* const group : root->groups) {
      if (group->frees_after_backward) group->is_whole = false;
      if (group->reduces) reduce(*group);
      if (is_last_backward_) group->was_forward = false;
    }
  }
}

void GroupCalls::reduce(Group& group) {
  const bool has_gradient =
      std::erase_if(waiting_, [&](const std::string& name) { return group.parameters.contains(name); }) > 0;
  if (!has_gradient) return;
  if (shards_ > 1) ++communication_.reduce_scatters;
  if (replicas_ > 1 && group.all_reduces) ++communication_.all_reduces;
}

}  // namespace shardproof::suites
