// Writes the stack of each rank that died by a signal into the evidence of its world, or the reason for a missing
// stack. A running world (world.cpp) calls it when all ranks have ended, while the records of their handlers exist.
#pragma once

#include <chrono>
#include <span>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::launcher {

/// The time for all stacks of a world. Other worlds of this launcher wait meanwhile, so it is short.
inline constexpr std::chrono::seconds crash_time_limit{5};

/// Writes `rank-N.crash`. A failure to write stops no other work.
void keep_crash_stacks(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                       std::span<const protocol::Ending> endings);

}  // namespace shardproof::launcher
