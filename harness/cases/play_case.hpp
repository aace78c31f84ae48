// The case that a launcher's `play` consists of: no program declares it, its body is a document.
#pragma once

#include <filesystem>

#include "harness/cases/bound_case.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof {

/// Throws std::invalid_argument that names the place in the document, or says why it cannot be read.
void check_scenario(const std::filesystem::path& document);

/// Plays the plan's scenario; fails when it has a race; leaves `play_result(rank)` behind. Throws as `check_scenario`.
BoundCase play_case(const WorldPlan& plan);

}  // namespace shardproof
