#include "suites/checks/script_walk.hpp"

#include <map>

namespace shardproof::suites {

namespace {

bool may_free_or_gather(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
    case ActionKind::evaluate:
    case ActionKind::backward:
    case ActionKind::unshard:
    case ActionKind::wait_for_unshard:
    case ActionKind::reshard: return true;
    default: return false;
  }
}

}  // namespace

bool is_for_all_ranks(const Script& script) {
  return !any_call(script, [](const Action& action) { return !action.ranks.empty(); });
}

void follow_script(const Scenario& scenario, const std::function<void(const Action&)>& make,
                   const std::function<void(const Action&, const std::string& mark)>& look) {
  int iteration = 0;
  for (const Script::Segment& segment : scenario.script.segments) {
    for (int i = 0; i < segment.iterations; ++i, ++iteration) {
      std::map<std::string, int> occurrences;
      for (const Action& action : segment.body) {
        make(action);
        if (!may_free_or_gather(action.kind)) continue;
        const std::string call = (action.fails_in ? "failing " : "") + std::string(to_string(action.kind));
        look(action, mark(iteration, call, true, ++occurrences[call]));
      }
    }
  }
}

std::vector<Communication> communication_by_iteration(const Scenario& scenario,
                                                      const std::function<void(const Action&)>& make,
                                                      const std::function<Communication()>& so_far) {
  std::vector<Communication> all;
  for (const Script::Segment& segment : scenario.script.segments) {
    for (int i = 0; i < segment.iterations; ++i) {
      const Communication before = so_far();
      for (const Action& action : segment.body) make(action);
      const Communication after = so_far();
      all.push_back({.all_gathers = after.all_gathers - before.all_gathers,
                     .reduce_scatters = after.reduce_scatters - before.reduce_scatters,
                     .all_reduces = after.all_reduces - before.all_reduces});
    }
  }
  return all;
}

}  // namespace shardproof::suites
