// A check of runs whose parameters were meta.
#pragma once

#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::extensions {

/// Checks that no parameter has memory when this call of the first iteration begins, and that shards have memory when
/// it has ended.
void check_materialized_by(const Rank& rank, const Run& run, ActionKind call);

}  // namespace shardproof::extensions
