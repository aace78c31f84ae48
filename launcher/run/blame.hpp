// Whose fault it is that a world does not get on.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "harness/protocol/flight_record.hpp"

namespace shardproof::launcher {

/// What is known of the ranks of a world in which some are overdue.
struct Standstill {
  std::vector<Wait> waits;                  ///< of whom for whom, by their flight records
  std::vector<int> overdue;
  std::vector<int> alive;
  std::optional<int> turn;                  ///< the rank that has it, where they take turns
  std::function<bool(int rank)> is_absent;  ///< has not joined
};

/// Who waits for others that are not there is not to blame, unless that is all that anybody does. Who is to blame may not be overdue itself: a
/// rank that has not begun a case that others are in has its own time to join them. Where ranks take turns, it is the one that has it.
std::vector<int> blamed(const Standstill& standstill);

}  // namespace shardproof::launcher
