// A scenario with another feature, for defects that show only where features meet.
#pragma once

#include <functional>

#include "harness/scenario/scenario.hpp"
#include "harness/world/rank.hpp"

namespace shardproof::suites {

/// Calls `judge` with the scenario. If the subject plays such modules, calls it again with the same scenario and one more module, the last of
/// the root. It runs a ReLU and discards its output, so it changes no value and no collective.
void also_with_discard(const Rank& rank, const scenario::Scenario& scenario, const std::function<void(const scenario::Scenario&)>& judge);

}  // namespace shardproof::suites
