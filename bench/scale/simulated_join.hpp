// The file store of a world of simulated ranks: FileStore itself, over files in memory that count the calls.
#pragma once

#include "bench/scale/calls.hpp"

namespace shardproof::bench {

/// The calls of all ranks from their start until they have joined. The ranks take turns, so no rank waits.
FileCalls simulate_join(int ranks);

}  // namespace shardproof::bench
