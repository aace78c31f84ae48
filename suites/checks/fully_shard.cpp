// Facts about plans for `fully_shard`, for checks.
#include "harness/scenario/plan/fully_shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/trace/memory.hpp"
#include "suites/checks/alive.hpp"
#include "suites/checks/fully_shard_calls.hpp"
#include "suites/checks/kind.hpp"
#include "suites/checks/said.hpp"
#include "suites/checks/script_walk.hpp"
#include "suites/checks/sharded_races.hpp"
#include "suites/checks/times.hpp"

namespace shardproof::suites {

namespace {

class FullyShardChecks final : public Kind {
 public:
  // A root that no later backward reaches never finishes its work.
  bool may_leave_work(const Scenario& scenario) const override {
    const bool is_one_root = std::ranges::any_of(fully_shard_plan(scenario.plan).wrap, [](const WrapGroup& group) {
      return std::ranges::find(group.modules, "") != group.modules.end();
    });
    const auto takes_ways = [](const Action& action) { return !action.paths.empty(); };
    const auto leaves = [](const Action& action) {
      return action.kind == ActionKind::set_requires_gradient_sync || action.kind == ActionKind::set_is_last_backward ||
             action.kind == ActionKind::set_requires_all_reduce;
    };
    return !is_one_root && any_call(scenario.script, takes_ways) && any_call(scenario.script, leaves);
  }

  SoundnessClauses clauses() const override { return sharded_clauses; }

  std::string_view ordering_clause(const Run& run, const trace::Race& race) const override {
    return ordering_clause_of_sharded(run, race);
  }

  Plans plans(const Scenario& scenario, int world) const override {
    if (!can_follow_groups(scenario)) return Plans::nothing;
    GroupCalls calls(scenario, world);
    for (const Script::Segment& segment : scenario.script.segments) {
      for (int i = 0; i < segment.iterations; ++i)
        std::ranges::for_each(segment.body, [&](const auto& action) { calls.make(action); });
    }
    return calls.may_have_gathered_in_vain() ? Plans::least : Plans::exactly;
  }

  std::vector<Communication> planned(const Scenario& scenario, int world) const override {
    GroupCalls calls(scenario, world);
    return communication_by_iteration(
        scenario, [&](const Action& action) { calls.make(action); }, [&] { return calls.communication(); });
  }

  void check_memory(const Run& run, int world, MemoryCheck check) const override {
    if (plans(run.scenario(), world) == Plans::nothing) return;
    const std::uint64_t unsharded = unsharded_parameters(run.scenario());
    // A whole parameter that an extension has made may keep the gathered memory.
    const bool is_extended =
        any_call(run.scenario().script, [](const Action& action) { return action.kind == ActionKind::extend; }) ||
        any_module(run.scenario(), [](const Module& module) { return module.tensor != TensorKind::plain; });
    GroupCalls calls(run.scenario(), world);
    const auto make = [&](const Action& action) { calls.make(action); };
    follow_script(run.scenario(), make, [&](const Action& action, const std::string& end) {
      if ((action.kind == ActionKind::backward) != (check == MemoryCheck::nothing_left)) return;
      if (!calls.may_be_whole_in_vain() && (calls.whole_parameters() == 0 || !is_extended))
        check_alive(run.trace(), MemoryClass::parameter, end, Alive::exactly, unsharded + calls.whole_parameters());
      if (check != MemoryCheck::nothing_left || calls.goes_on()) return;
      if (!calls.is_gathering()) check_alive(run.trace(), MemoryClass::gathered, end, Alive::exactly, 0);
      check_alive(run.trace(), MemoryClass::reduce_input, end, Alive::exactly, 0);
      check_alive(run.trace(), MemoryClass::gradient, end, Alive::at_most, unsharded + calls.waiting_gradients());
    });
  }

  // Ranks agree on sizes before the first gathers by extensions, and on the norm of all gradients.
  bool is_agreement(const fact::Collective& call) const override {
    return call.tag == extension_sizes_tag || call.tag == gradient_norm_tag;
  }

  int holders(const Plan& plan, const std::string& /*parameter*/, int /*world*/) const override {
    return plan.mesh.shape.size() == 2 ? plan.mesh.shape[0] : 1;
  }

  void check_nothing_gathered_twice(const Run& run) const override {
    std::map<std::string, std::string> tag_of;  // by parameter: the tag of its group's collectives
    for (const ParameterShape& parameter : parameters(run.scenario().model)) {
      if (const WrapGroup* group = fully_shard_plan(run.scenario().plan).group_of(parameter.name))
        tag_of[parameter.name] = group->modules.front();
    }
    std::map<std::uint64_t, std::string> there;  // by buffer: the group whose whole or arriving parameters it holds
    std::map<std::uint64_t, std::string> gathered;
    for (const Fact& fact : run.trace().facts) {
      if (const auto* made = std::get_if<fact::Allocated>(&fact)) {
        if (made->memory == MemoryClass::parameter && tag_of.contains(made->label))
          there[made->buffer] = tag_of[made->label];
        if (made->memory == MemoryClass::gathered) gathered[made->buffer] = made->label;
      } else if (const auto* gone = std::get_if<fact::Released>(&fact)) {
        there.erase(gone->buffer);
      } else if (const auto* call = std::get_if<fact::Collective>(&fact);
                 call != nullptr && call->kind == CollectiveKind::all_gather) {
        if (is_agreement(*call)) continue;
        check_said(std::ranges::any_of(tag_of, [&](const auto& parameter) { return parameter.second == call->tag; }),
                   fmt::format("an all-gather at {} has the tag \"{}\", which no group of the plan has",
                               in_ms(call->start), call->tag));
        check_said(
            std::ranges::none_of(there, [&](const auto& buffer) { return buffer.second == call->tag; }),
            fmt::format("group \"{}\" is gathered at {}, while its parameters are whole or are being gathered already",
                        call->tag, in_ms(call->start)));
        if (!call->writes.empty() && gathered.contains(call->writes.front().buffer))
          there[call->writes.front().buffer] = call->tag;
      } else if (const auto* work = std::get_if<fact::Work>(&fact);
                 work != nullptr && work->kind == WorkKind::copy_out) {
        for (const ByteRange& read : work->reads) there.erase(read.buffer);
      }
    }
  }

  void check_nothing_is_left(const Run& run, int iteration, int backward) const override {
    const std::string end = mark(iteration, ActionKind::backward, true, backward);
    for (const MemoryClass memory : {MemoryClass::gathered, MemoryClass::reduce_input})
      check_alive(run.trace(), memory, end, Alive::exactly, 0);
    // Parameters without a group stay whole, and so do their gradients.
    const std::uint64_t unsharded = unsharded_parameters(run.scenario());
    check_alive(run.trace(), MemoryClass::parameter, end, Alive::exactly, unsharded);
    check_alive(run.trace(), MemoryClass::gradient, end, Alive::at_most, unsharded);
  }
};

}  // namespace

Plan plan_of_one_rank() {
  Plan plan;
  fully_shard_plan(plan).wrap = {{.modules = {""}}};
  return plan;
}

ENGINE_CLAUSES(.engine = "fully_shard", .equal_collectives = std::string(sharded_clauses.same_order),
               .freed_memory = std::string(sharded_clauses.freed_memory), .in_scopes = clauses_of_sharded_scopes());

const Kind& fully_shard_checks() {
  static const FullyShardChecks checks;
  return checks;
}

}  // namespace shardproof::suites
