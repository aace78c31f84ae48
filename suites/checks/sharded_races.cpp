#include "suites/checks/sharded_races.hpp"

#include "suites/checks/race_parts.hpp"

namespace shardproof::suites {

namespace {

constexpr std::string_view gathered_before_use = "OVL-4", stepped_before_gather = "OVL-5",
                           reduced_after_gradients = "OVL-6", kept_while_used = "OVL-7", hooks_in_order = "EXT-8";

bool gathers(const Fact& fact) {
  return is_work(fact, WorkKind::copy_in) || is_work(fact, WorkKind::copy_out) ||
         is_collective(fact, CollectiveKind::all_gather);
}

bool reduces(const Fact& fact) {
  return is_work(fact, WorkKind::reduce_copy_in) || is_work(fact, WorkKind::reduce_copy_out) ||
         is_collective(fact, CollectiveKind::reduce_scatter) || is_collective(fact, CollectiveKind::all_reduce);
}

}  // namespace

std::vector<std::string> clauses_of_sharded_scopes() {
  std::vector<std::string> clauses{"EXT-9", "CMH-16"};
  for (const std::string_view clause :
       {gathered_before_use, stepped_before_gather, reduced_after_gradients, kept_while_used, hooks_in_order,
        sharded_clauses.same_order, sharded_clauses.nothing_twice, sharded_clauses.nothing_left,
        sharded_clauses.freed_memory})
    clauses.emplace_back(clause);
  return clauses;
}

std::string_view ordering_clause_of_sharded(const Run& run, const trace::Race& race) {
  const Trace& trace = run.trace();
  if (is_about_release(race)) return kept_while_used;
  const auto any = [&](auto is_one) {
    return is_one(trace.facts.at(race.first.fact)) || is_one(trace.facts.at(race.second.fact));
  };
  const bool steps = any([](const Fact& fact) { return is_work(fact, WorkKind::optimizer); });
  const auto by_work = [&] {
    if (any(reduces)) return reduced_after_gradients;
    return steps ? stepped_before_gather : gathered_before_use;
  };
  // A hook's work has a different kind than the engine's own work. The case copies the tensors that a hook gets, on the
  // hook's stream.
  const bool has_hooks =
      any_call(run.scenario().script, [](const Action& action) { return action.extension.has_value(); });
  const bool is_of_hook = has_hooks && any([](const Fact& fact) {
                            return is_work(fact, WorkKind::other) || is_work(fact, WorkKind::snapshot);
                          });
  switch (memory_of(trace, race.bytes.buffer)) {
    case MemoryClass::gradient:
    case MemoryClass::sharded_gradient:
    case MemoryClass::reduce_input: return reduced_after_gradients;
    case MemoryClass::shard:
    case MemoryClass::optimizer_state:
      if (is_of_hook) return hooks_in_order;
      return any(gathers) ? stepped_before_gather : by_work();
    case MemoryClass::gathered:
    case MemoryClass::parameter:
    case MemoryClass::activation:
    case MemoryClass::other: break;
  }
  return is_of_hook ? hooks_in_order : by_work();
}

}  // namespace shardproof::suites
