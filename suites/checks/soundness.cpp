#include "suites/checks/soundness.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "harness/protocol/digest.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/trace/memory.hpp"

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

bool is_freed_after_forward(const scenario::WrapGroup& group) {
  using Kind = scenario::ReshardAfterForward::Kind;
  const bool is_root = std::ranges::find(group.modules, "") != group.modules.end();
  return group.reshard_after_forward.kind == Kind::yes || (group.reshard_after_forward.kind == Kind::automatic && !is_root);
}

// In which ranks agree on sizes, before the first gathers by extensions: no plan asks for it, and how often is the engine's business.
bool is_agreement(const fact::Collective& call) { return call.tag == extension_sizes_tag; }

Communication issued(const scenario::Iteration& iteration) {
  Communication communication;
  for (const fact::Collective& call : iteration.collectives()) {
    if (is_agreement(call)) continue;
    if (call.kind == CollectiveKind::all_gather) ++communication.all_gathers;
    if (call.kind == CollectiveKind::reduce_scatter) ++communication.reduce_scatters;
  }
  return communication;
}

}  // namespace

std::vector<Communication> planned(const Scenario& scenario, int world) {
  const auto groups = world > 1 ? groups_with_parameters(scenario) : std::vector<scenario::WrapGroup>{};
  const auto freed = static_cast<std::size_t>(std::ranges::count_if(groups, is_freed_after_forward));
  std::vector<Communication> all;
  for (const scenario::Script::Segment& segment : scenario.script.segments) {
    Communication communication;
    for (const scenario::Action& action : segment.body) {
      if (action.kind == ActionKind::forward) communication.all_gathers += groups.size();
      if (action.kind != ActionKind::backward) continue;
      communication.all_gathers += freed;
      communication.reduce_scatters += groups.size();
    }
    all.insert(all.end(), static_cast<std::size_t>(segment.iterations), communication);
  }
  return all;
}

void check_plan_is_communicated(Rank& rank, const scenario::Run& run) {
  const std::vector<Communication> least = planned(run.scenario(), rank.world().size());
  for (const scenario::Iteration& iteration : run.iterations()) {
    CAPTURE(iteration.index());
    const Communication asked = least.at(static_cast<std::size_t>(iteration.index())), done = issued(iteration);
    CHECK(done.all_gathers >= asked.all_gathers);
    CHECK(done.reduce_scatters >= asked.reduce_scatters);
  }
}

void check_nothing_else_is_communicated(Rank& rank, const scenario::Run& run) {
  const std::vector<Communication> plan = planned(run.scenario(), rank.world().size());
  for (const scenario::Iteration& iteration : run.iterations()) {
    CAPTURE(iteration.index());
    const Communication asked = plan.at(static_cast<std::size_t>(iteration.index())), done = issued(iteration);
    CHECK(done.all_gathers == asked.all_gathers);
    CHECK(done.reduce_scatters == asked.reduce_scatters);
  }
  check_all_in_iterations(run, CollectiveKind::all_gather);
  check_all_in_iterations(run, CollectiveKind::reduce_scatter);
}

void check_all_in_iterations(const scenario::Run& run, CollectiveKind kind) {
  std::size_t inside = 0;
  for (const scenario::Iteration& iteration : run.iterations()) inside += iteration.count(kind);
  INFO("no " << to_string(kind) << " comes before, between or after the iterations");
  CHECK(run.count(kind) == inside);
}

std::vector<scenario::Iteration> steady_iterations(const scenario::Run& run) {
  std::vector<scenario::Iteration> all = run.iterations();
  REQUIRE(all.size() >= 3);
  return all;
}

void check_same_order(Rank& rank, const scenario::Run& run) {
  std::uint64_t so_far = digest("");
  for (const Fact& fact : run.trace().facts) {
    const auto* collective = std::get_if<fact::Collective>(&fact);
    if (collective == nullptr) continue;
    so_far = digest(to_string(collective->kind), so_far);
    so_far = digest(collective->tag, so_far);
    so_far = digest(std::to_string(collective->group.size()), so_far);
  }
  Tensor mine = Tensor::host(DType::i64, {1});
  mine.values<std::int64_t>()[0] = static_cast<std::int64_t>(so_far);
  const Tensor all = rank.world().all_gather(mine);
  for (const std::int64_t other : all.values<std::int64_t>()) CHECK(static_cast<std::uint64_t>(other) == so_far);
}

void check_nothing_gathered_twice(const scenario::Run& run) {
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
      CAPTURE(call->tag, call->start);
      CHECK(std::ranges::any_of(tag_of, [&](const auto& parameter) { return parameter.second == call->tag; }));
      CHECK(std::ranges::none_of(there, [&](const auto& buffer) { return buffer.second == call->tag; }));
      if (!call->writes.empty() && gathered.contains(call->writes.front().buffer)) there[call->writes.front().buffer] = call->tag;
    } else if (const auto* work = std::get_if<fact::Work>(&fact); work != nullptr && work->kind == WorkKind::copy_out) {
      for (const ByteRange& read : work->reads) there.erase(read.buffer);
    }
  }
}

void check_nothing_is_left(const scenario::Run& run, int iteration, int backward) {
  const std::string end = scenario::mark(iteration, ActionKind::backward, true, backward);
  for (const MemoryClass memory : {MemoryClass::gathered, MemoryClass::reduce_input}) {
    CAPTURE(to_string(memory));
    CHECK(trace::at(run.trace(), memory, end).buffers == 0);
  }
  // What no group claims is whole for ever, and so is its gradient.
  const auto all = scenario::parameters(run.scenario().model);
  const auto unclaimed = static_cast<std::uint64_t>(std::ranges::count_if(
      all, [&](const auto& parameter) { return fully_shard(run.scenario().plan).group_of(parameter.name) == nullptr; }));
  CHECK(trace::at(run.trace(), MemoryClass::parameter, end).buffers == unclaimed);
  CHECK(trace::at(run.trace(), MemoryClass::gradient, end).buffers <= unclaimed);
}

void check_sound(Rank& rank, const scenario::Run& run) {
  check_no_race(rank, run);
  check_same_order(rank, run);
  check_nothing_gathered_twice(run);
}

void check_no_race(const Rank& rank, const scenario::Run& run) {
  const auto races = run.races();
  for (const std::string& text : trace::describe(races, rank.index())) FAIL_CHECK(text);
  CHECK(races.empty());
}

}  // namespace shardproof::suites
