// Compares the order of work in two plays: the steps that each host issued, and what has to wait for what. Only
// play_difference.cpp uses this header.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "reports/play/play_difference.hpp"

namespace shardproof::reports {

struct OrderComparison {
  std::size_t steps = 0;   ///< Steps of the first subject, on all ranks.
  bool with_waits = true;  ///< Waits were compared. False: there are too many steps.
  std::optional<PlayDifference> first;
};

/// Both plays have the same number of ranks. `first` is the first step that differs on a rank. Without such a step, it
/// is the first wait.
OrderComparison compare_orders(const std::vector<protocol::PlayResult>& first,
                               const std::vector<protocol::PlayResult>& second);

}  // namespace shardproof::reports
