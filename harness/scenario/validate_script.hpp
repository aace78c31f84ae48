// Checks whether a script can be played.
#pragma once

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Checks the script of a scenario whose model and plan are right. Throws std::invalid_argument that names the call.
void validate_script(const Scenario& scenario);

/// Checks that a world of this size can play the scenario. The document names this size or none, the mesh has all ranks
/// of the world, and the world has all ranks that calls name. Throws DocumentError.
void require_world_size(const Scenario& scenario, int size);

/// Checks that a world of this size has all ranks that the calls of a script name. Throws std::invalid_argument that
/// names the call.
void require_ranks_in_world(const Script& script, int size);

/// Checks a script that `validate_script` has passed for a world of this size. Throws std::invalid_argument with the
/// call. A call is refused if it is for a rank that the world does not have, or if its hook fails on such a rank. It is
/// also refused if a rank that no call names cannot make it.
void validate_script_in_world(const Scenario& scenario, int size);

}  // namespace shardproof::scenario
