// The cases of a launcher's `play` and `explore`. No program declares them: their bodies are documents.
#pragma once

#include <vector>

#include "harness/cases/bound_case.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::runner {

/// Each case plays one of the plan's scenarios, and fails if the scenario has a race. It leaves the file
/// `play_result(id, rank)`. Throws like
/// `ScenarioDocument::scenario`.
std::vector<cases::BoundCase> play_cases(const protocol::WorldPlan& plan);

}  // namespace shardproof::runner
