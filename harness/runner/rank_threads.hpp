// All ranks of a world as threads of this process.
#pragma once

#include <functional>

#include "harness/protocol/world_plan.hpp"
#include "harness/world/premises.hpp"

namespace shardproof {

/// Calls `take_part` for every rank in a thread of its own, by turns where the plan's scheduler is `seeded`, and returns when all have ended.
/// A rank that throws has doomed the world, unless it was released; then what the first of the others threw is thrown here, or else what
/// released them.
void run_rank_threads(const WorldPlan& plan, const Premises& premises, const std::function<void(int rank)>& take_part);

}  // namespace shardproof
