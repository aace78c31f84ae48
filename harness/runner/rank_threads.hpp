// Runs all ranks of a world as threads of this process.
#pragma once

#include <functional>

#include "harness/protocol/world_plan.hpp"
#include "harness/world/connection.hpp"

namespace shardproof::runner {

/// Calls `take_part` for every rank in its own thread, and returns when all ranks have ended. If the plan's scheduler
/// is `seeded`, the ranks take turns.
///
/// A rank that throws any error but Released dooms the world. Rethrows the error of the first rank that threw one, in
/// order of rank. Without such a rank, rethrows the first Released.
void run_rank_threads(const protocol::WorldPlan& plan, const world::Connection& connection,
                      const std::function<void(int rank)>& take_part);

}  // namespace shardproof::runner
