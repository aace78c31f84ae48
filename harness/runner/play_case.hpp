// The cases that a launcher's `play` and `explore` consist of: no program declares them, their bodies are documents.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/cases/bound_case.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof {

/// Throws std::invalid_argument that names the place in the document, or says why it cannot be read.
scenario::Scenario read_scenario(const std::filesystem::path& document, std::optional<int> world_size = std::nullopt);

/// Each plays one of the plan's scenarios, fails when it has a race, and leaves `play_result(id, rank)` behind. Throws as `read_scenario`.
std::vector<BoundCase> play_cases(const WorldPlan& plan);

}  // namespace shardproof
