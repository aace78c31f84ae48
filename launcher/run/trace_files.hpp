// Merges the traces of a world's ranks. Ranks write one file for each case, and a case gets one Chrome trace.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/protocol/run_directory.hpp"

namespace shardproof::launcher {

/// Turns `CASE.rank-N.json` of all ranks into `CASE.trace.json`. Leaves the files of a case as they are if a part
/// cannot be read. Returns a sentence for each such case.
std::vector<std::string> merge_traces(const protocol::WorldDirectory& directory);

}  // namespace shardproof::launcher
