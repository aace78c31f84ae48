// Why a world ended early, in one sentence: who died or stood still, where, and who waited for it. Pure: `run` says it when it happens,
// `merge` and `explain` say the same of what was kept.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/flight_record.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::reports {

/// Empty for a world that no rank has ended. `flight`: as it was when the launcher saw the end; nullptr where nothing of it was kept.
///
///   rank 1 died by signal 11 (SIGSEGV) in CASE before its first collective; rank 0 waited for it in barrier #0 in group world
///   rank 2 never entered all_gather #17 of 276 f32 in group dp (ranks 0, 1 wait since 3.0 s); it last left reduce_scatter #9 of 276 f32 in
///   group dp and is in CASE
///   the process of all ranks died by signal 11 (SIGSEGV) while rank 1 was running, in CASE before its first collective
///   every rank waits for another in CASE: rank 0 in barrier #0 in group a for rank 1, rank 1 in barrier #2 in group b for rank 0
std::string explain(const WorldPlan& plan, std::span<const Ending> endings, const FlightSnapshot* flight);

/// `rank 0 waits in barrier #0 in group world for rank 1`: all that ranks wait in at this moment; empty where nobody does.
std::string standing(const FlightSnapshot& flight);

}  // namespace shardproof::reports
