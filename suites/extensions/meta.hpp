// What a run owes whose parameters were meta.
#pragma once

#include "harness/shardproof.hpp"

namespace shardproof::extensions {

/// Nothing of any parameter is in memory when this call of the first iteration begins, and shards are when it has ended.
void check_materialized_by(const Rank& rank, const scenario::Run& run, scenario::ActionKind call);

}  // namespace shardproof::extensions
