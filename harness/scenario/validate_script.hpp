// Whether a script can be played.
#pragma once

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Of a scenario whose model and plan are right. Throws std::invalid_argument that names the call.
void validate_script(const Scenario& scenario);

/// Throws std::invalid_argument that names the first call for a rank that a world of this size does not have.
void require_ranks(const Script& script, int world_size);

}  // namespace shardproof::scenario
