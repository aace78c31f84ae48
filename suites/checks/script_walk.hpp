// A walk through the calls of a script that every rank makes. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"
#include "suites/checks/kind.hpp"

namespace shardproof::suites {

/// Whether every rank makes each call.
bool is_for_all_ranks(const Script& script);

/// Calls `make` for each action, in order. After each action that may gather or free parameters, calls `look` with the
/// name of the mark at the action's end.
void follow_script(const Scenario& scenario, const std::function<void(const Action&)>& make,
                   const std::function<void(const Action&, const std::string& mark)>& look);

/// The collectives of each iteration. `so_far` returns the communication of all actions that `make` got.
std::vector<Communication> communication_by_iteration(const Scenario& scenario,
                                                      const std::function<void(const Action&)>& make,
                                                      const std::function<Communication()>& so_far);

}  // namespace shardproof::suites
