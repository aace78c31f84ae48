// Finds a deadlock in the flight records of all ranks of a world, and says where the ranks wait. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/control/abort.hpp"
#include "harness/protocol/flight_record.hpp"

namespace shardproof::control {

/// The rank has left its world.
bool has_left(const protocol::FlightRecord& record);
/// The rank has done nothing between two readings of its record. `begun` and `meetings` only grow.
bool is_unchanged(const protocol::FlightRecord& first, const protocol::FlightRecord& second);
/// The epoch of the case in which no rank can continue. Each rank that has not left its world waits for missing ranks,
/// at least one of them in a call. nullopt: a rank can continue. One reading proves nothing, because its records are of
/// different moments. If a second reading finds all records unchanged, they were true at one moment between the two.
std::optional<std::uint32_t> epoch_of_deadlock(const std::vector<protocol::FlightRecord>& records);

/// The abort of a world in which every rank waits. The culprit is the first rank that waits in a call, not in an
/// agreement. `records` are those of all ranks, in rank order.
Abort deadlock_of(const std::vector<protocol::FlightRecord>& records);

}  // namespace shardproof::control
