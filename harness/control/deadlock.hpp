// Says from flight records where the ranks of a deadlocked world wait. Pure.
#pragma once

#include <vector>

#include "harness/control/abort.hpp"
#include "harness/protocol/flight_record.hpp"

namespace shardproof::control {

/// The abort of a world in which every rank waits. The culprit is the first rank that waits in a call, not in an
/// agreement. `records` are those of all ranks, in rank order.
Abort deadlock_of(const std::vector<protocol::FlightRecord>& records);

}  // namespace shardproof::control
