// Explains in one sentence why a world ended early: which rank died or hung, where, and which ranks waited for it.
// `run` uses it when a world ends, and `merge` and `explain` use it on the files of a run. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/flight_record.hpp"
#include "harness/protocol/placement.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::reports {

/// Empty if no rank ended the world. `flight` are the ranks' records when the launcher saw the end. Nullptr: no records
/// were kept. If the ranks are on several hosts, the text names the host of each rank that is to blame. Examples:
///
///   rank 1 died by signal 11 (SIGSEGV) in CASE before its first collective; rank 0 waited for it in barrier #0 in
///   group world
///
///   rank 2 never entered all_gather #17 of 276 f32 in group dp (ranks 0, 1 have waited for 3.0 s); it last left
///   reduce_scatter #9 of 276 f32 in group dp and is in CASE
///
///   the process of all ranks died by signal 11 (SIGSEGV) while rank 1 was running, in CASE before its first collective
///
///   rank 5 on n2 died by signal 9 (SIGKILL) in CASE after all_gather #3 of 8 f32 in group world
///
///   every rank waits for another in CASE: rank 0 in barrier #0 in group a for rank 1, rank 1 in barrier #2 in group b
///   for rank 0
std::string explain(const protocol::WorldPlan& plan, std::span<const protocol::Ending> endings,
                    const protocol::FlightSnapshot* flight, const Placement& placement = {});

/// All waits of ranks at this moment, as `rank 0 waits in barrier #0 in group world for rank 1`. Empty: no rank waits.
std::string waits_text(const protocol::FlightSnapshot& flight);

}  // namespace shardproof::reports
