// What checks must know of plans for `fully_shard`.
#include "harness/scenario/plan/fully_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/trace/memory.hpp"
#include "suites/checks/alive.hpp"
#include "suites/checks/kind.hpp"
#include "suites/checks/said.hpp"
#include "suites/checks/sharded_races.hpp"
#include "suites/checks/times.hpp"

namespace shardproof::suites {

using scenario::ActionKind;
using scenario::Scenario;

namespace {

std::vector<scenario::WrapGroup> groups_with_parameters(const Scenario& scenario) {
  std::set<const scenario::WrapGroup*> claiming;
  for (const scenario::ParameterShape& parameter : scenario::parameters(scenario.model))
    claiming.insert(fully_shard(scenario.plan).group_of(parameter.name));
  std::vector<scenario::WrapGroup> groups;
  for (const scenario::WrapGroup& group : fully_shard(scenario.plan).wrap) {
    if (claiming.contains(&group)) groups.push_back(group);
  }
  return groups;
}

// Whether no other wrapped module holds its modules. A model may have several roots.
bool is_root(const scenario::FullyShardPlan& section, const scenario::WrapGroup& group) {
  const std::vector<std::string> wrapped = section.wrapped_modules();
  return std::ranges::any_of(group.modules, [&](const std::string& path) {
    return std::ranges::none_of(wrapped, [&](const std::string& above) { return above != path && scenario::is_at_or_under(path, above); });
  });
}

bool is_freed_after_forward(const scenario::FullyShardPlan& section, const scenario::WrapGroup& group) {
  using Reshard = scenario::ReshardAfterForward::Kind;
  const Reshard kind = group.reshard_after_forward.kind;
  return kind == Reshard::yes || (kind == Reshard::automatic && !is_root(section, group));
}

bool has_replicas(const scenario::Plan& plan) { return plan.mesh.shape.size() == 2 && plan.mesh.shape[0] > 1; }

// Whether each module runs once in each forward, and takes part in the loss; and each group has something to train.
bool runs_plainly(const Scenario& scenario) {
  bool is_plain = true;
  visit(scenario.model.root, "", [&](const scenario::Module& module, const std::string&) {
    using Kind = scenario::ModuleKind;
    const bool is_odd =
        module.kind == Kind::use || module.kind == Kind::discard || module.kind == Kind::list || module.kind == Kind::choice;
    is_plain = is_plain && !is_odd && !module.frozen;
  });
  return is_plain;
}

// Whether a script only trains: each forward is followed by its backward, which reduces.
bool trains_plainly(const scenario::Script& script) {
  for (const scenario::Script::Segment& segment : script.segments) {
    bool is_between = false;
    for (const scenario::Action& action : segment.body) {
      switch (action.kind) {
        case ActionKind::forward:
          if (is_between || action.fails_in || !action.module.empty()) return false;
          is_between = true;
          break;
        case ActionKind::backward: is_between = false; break;
        case ActionKind::step:
        case ActionKind::zero_grad:
        case ActionKind::post_optim_event:
        case ActionKind::capture:
        case ActionKind::clip_grad_norm:
        case ActionKind::extend:
        case ActionKind::materialize:
        case ActionKind::initialize: break;
        default: return false;
      }
    }
  }
  return true;
}

class FullyShardChecks final : public Kind {
 public:
  // A root that a later backward does not reach keeps its work for ever.
  bool may_leave_work(const scenario::Scenario& scenario) const override {
    const bool is_one_root = std::ranges::any_of(fully_shard(scenario.plan).wrap, [](const scenario::WrapGroup& group) {
      return std::ranges::find(group.modules, "") != group.modules.end();
    });
    const auto takes_ways = [](const scenario::Action& action) { return !action.paths.empty(); };
    const auto leaves = [](const scenario::Action& action) {
      return action.kind == ActionKind::set_requires_gradient_sync || action.kind == ActionKind::set_is_last_backward ||
             action.kind == ActionKind::set_requires_all_reduce;
    };
    return !is_one_root && any_call(scenario.script, takes_ways) && any_call(scenario.script, leaves);
  }

  SoundnessClauses clauses() const override { return sharded_clauses; }

  std::string_view ordering_clause(const scenario::Run& run, const trace::Race& race) const override {
    return ordering_clause_of_sharded(run, race);
  }

  Plans plans(const Scenario& scenario, int /*world*/) const override {
    const auto keeps_parts = [](const scenario::WrapGroup& group) {
      return group.reshard_after_forward.kind == scenario::ReshardAfterForward::Kind::size;
    };
    const std::vector<int>& mesh = scenario.plan.mesh.shape;
    const bool shards = mesh.size() != 2 || mesh[1] > 1;
    const bool is_known = shards && runs_plainly(scenario) && trains_plainly(scenario.script) &&
                          std::ranges::none_of(fully_shard(scenario.plan).wrap, keeps_parts);
    return is_known ? Plans::exactly : Plans::nothing;
  }

  void check_memory(const scenario::Run& run, int world) const override {
    if (plans(run.scenario(), world) != Plans::exactly) return;
    int iteration = 0;
    for (const scenario::Script::Segment& segment : run.scenario().script.segments) {
      const auto backwards = std::ranges::count(segment.body, ActionKind::backward, &scenario::Action::kind);
      for (int i = 0; i < segment.iterations; ++i, ++iteration) {
        for (int backward = 1; backward <= backwards; ++backward) check_nothing_is_left(run, iteration, backward);
      }
    }
  }

  // Each forward gathers each group, and each backward reduces it. A backward gathers a group again if its parameters were freed in between.
  std::vector<Communication> planned(const Scenario& scenario, int world) const override {
    const auto groups = world > 1 ? groups_with_parameters(scenario) : std::vector<scenario::WrapGroup>{};
    const auto freed = static_cast<std::size_t>(std::ranges::count_if(
        groups, [&](const scenario::WrapGroup& group) { return is_freed_after_forward(fully_shard(scenario.plan), group); }));
    std::vector<Communication> all;
    for (const scenario::Script::Segment& segment : scenario.script.segments) {
      Communication communication;
      for (const scenario::Action& action : segment.body) {
        if (action.kind == ActionKind::forward) communication.all_gathers += groups.size();
        if (action.kind != ActionKind::backward) continue;
        communication.all_gathers += freed;
        communication.reduce_scatters += groups.size();
        if (has_replicas(scenario.plan)) communication.all_reduces += groups.size();
      }
      all.insert(all.end(), static_cast<std::size_t>(segment.iterations), communication);
    }
    return all;
  }

  // On sizes, before the first gathers by extensions; and on the norm of all gradients.
  bool is_agreement(const fact::Collective& call) const override {
    return call.tag == extension_sizes_tag || call.tag == scenario::gradient_norm_tag;
  }

  int holders(const scenario::Plan& plan, const std::string& /*parameter*/, int /*world*/) const override {
    return plan.mesh.shape.size() == 2 ? plan.mesh.shape[0] : 1;
  }

  void check_nothing_gathered_twice(const scenario::Run& run) const override {
    std::map<std::string, std::string> tag_of;  // by parameter: what its group's collectives are tagged with
    for (const scenario::ParameterShape& parameter : scenario::parameters(run.scenario().model)) {
      if (const scenario::WrapGroup* group = fully_shard(run.scenario().plan).group_of(parameter.name))
        tag_of[parameter.name] = group->modules.front();
    }
    std::map<std::uint64_t, std::string> there;  // buffers, and whose parameters they hold: whole or on the way
    std::map<std::uint64_t, std::string> gathered;
    for (const Fact& fact : run.trace().facts) {
      if (const auto* made = std::get_if<fact::Allocated>(&fact)) {
        if (made->memory == MemoryClass::parameter && tag_of.contains(made->label)) there[made->buffer] = tag_of[made->label];
        if (made->memory == MemoryClass::gathered) gathered[made->buffer] = made->label;
      } else if (const auto* gone = std::get_if<fact::Released>(&fact)) {
        there.erase(gone->buffer);
      } else if (const auto* call = std::get_if<fact::Collective>(&fact); call != nullptr && call->kind == CollectiveKind::all_gather) {
        if (is_agreement(*call)) continue;
        check_said(std::ranges::any_of(tag_of, [&](const auto& parameter) { return parameter.second == call->tag; }),
                   fmt::format("an all-gather at {} has the tag \"{}\", which no group of the plan has", in_ms(call->start), call->tag));
        check_said(std::ranges::none_of(there, [&](const auto& buffer) { return buffer.second == call->tag; }),
                   fmt::format("group \"{}\" is gathered at {}, while its parameters are whole or are being gathered already", call->tag,
                               in_ms(call->start)));
        if (!call->writes.empty() && gathered.contains(call->writes.front().buffer)) there[call->writes.front().buffer] = call->tag;
      } else if (const auto* work = std::get_if<fact::Work>(&fact); work != nullptr && work->kind == WorkKind::copy_out) {
        for (const ByteRange& read : work->reads) there.erase(read.buffer);
      }
    }
  }

  void check_nothing_is_left(const scenario::Run& run, int iteration, int backward) const override {
    const std::string end = scenario::mark(iteration, ActionKind::backward, true, backward);
    for (const MemoryClass memory : {MemoryClass::gathered, MemoryClass::reduce_input})
      check_alive(run.trace(), memory, end, Alive::exactly, 0);
    // What no group claims is whole for ever, and so is its gradient.
    const auto all = scenario::parameters(run.scenario().model);
    const auto unclaimed = static_cast<std::uint64_t>(std::ranges::count_if(
        all, [&](const auto& parameter) { return fully_shard(run.scenario().plan).group_of(parameter.name) == nullptr; }));
    check_alive(run.trace(), MemoryClass::parameter, end, Alive::exactly, unclaimed);
    check_alive(run.trace(), MemoryClass::gradient, end, Alive::at_most, unclaimed);
  }
};

}  // namespace

scenario::Plan plan_of_one_rank() {
  scenario::Plan plan;
  fully_shard(plan).wrap = {{.modules = {""}}};
  return plan;
}

ENGINE_CLAUSES(.engine = "fully_shard", .equal_collectives = std::string(sharded_clauses.same_order),
               .freed_memory = std::string(sharded_clauses.freed_memory), .in_scopes = clauses_of_sharded_scopes());

const Kind& fully_shard_checks() {
  static const FullyShardChecks checks;
  return checks;
}

}  // namespace shardproof::suites
