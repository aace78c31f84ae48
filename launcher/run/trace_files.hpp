// The traces that ranks write case by case, one file each, as one Chrome trace per case.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

/// Turns `CASE.rank-N.json` of all ranks into `CASE.trace.json`. A case of which a part cannot be read is left as it is; returns a
/// sentence for each.
std::vector<std::string> merge_traces(const WorldDirectory& directory);

}  // namespace shardproof::launcher
