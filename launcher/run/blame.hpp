// Finds the ranks to blame when a world makes no progress. A running world (world.cpp) asks after a deadline.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "harness/protocol/flight_record.hpp"

namespace shardproof::launcher {

/// The state of a world's ranks when some are overdue.
struct Stall {
  std::vector<protocol::PeerWait> waits;                  ///< which rank waits for which, from their flight records
  std::vector<int> overdue;
  std::vector<int> alive;
  std::optional<int> turn;                  ///< the rank that has the turn, if ranks take turns
  std::function<bool(int rank)> is_absent;  ///< whether the rank has not joined the world
};

/// Returns the ranks to blame, by the first rule that applies:
///   1. If ranks take turns: the rank that has the turn.
///   2. The overdue ranks that have not joined.
///   3. The overdue ranks that no other rank holds up.
///   4. The living ranks that no other rank holds up. They are not overdue: a rank that has not begun the others' case
///      has its own time to join them.
///   5. All overdue ranks: each rank waits for another.
std::vector<int> find_culprits(const Stall& stall);

}  // namespace shardproof::launcher
