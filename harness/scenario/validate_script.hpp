// Whether a script can be played.
#pragma once

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Of a scenario whose model and plan are right. Throws std::invalid_argument that names the call.
void validate_script(const Scenario& scenario);

/// Of a scenario whose script is right. Throws std::invalid_argument that names a call for a rank that a world of this size does not have, and
/// a call that a rank cannot make which only this world has: a rank that no call names.
void validate_script_in_world(const Scenario& scenario, int size);

}  // namespace shardproof::scenario
