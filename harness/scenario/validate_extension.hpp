// Whether what a script extends can be extended so. Inner header of this room.
#pragma once

#include <string>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Throws std::invalid_argument that begins with the place. What engines have to refuse themselves is none of its matter: a hook that is
/// missing, contributions of sizes that do not fit.
void validate_extension(const Scenario& scenario, const Extension& extension, const std::string& place);

}  // namespace shardproof::scenario
