// Checks whether a parameter or kind of a script's extension can have this extension. Inner header of this folder.
#pragma once

#include <string>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Throws std::invalid_argument that begins with the place. It accepts two mistakes that engines themselves must
/// refuse: a missing hook, and contributions of wrong sizes.
void validate_extension(const Scenario& scenario, const Extension& extension, const std::string& place);

}  // namespace shardproof::scenario
