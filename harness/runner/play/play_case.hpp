// The cases of a launcher's `play` and `explore`. No program declares them: their bodies are documents.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/cases/bound_case.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::runner {

/// Throws std::invalid_argument with the place of an error in the document, or with the reason why it cannot be read.
Scenario read_scenario(const std::filesystem::path& document, std::optional<int> world_size = std::nullopt);

/// Each case plays one of the plan's scenarios, and fails if the scenario has a race. It leaves the file
/// `play_result(id, rank)`. Throws like `read_scenario`.
std::vector<cases::BoundCase> play_cases(const protocol::WorldPlan& plan);

}  // namespace shardproof::runner
