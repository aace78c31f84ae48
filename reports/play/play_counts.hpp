// Compares the collectives of two plays: how many of each kind, for which purpose, and what they exchange. Only files
// of this folder use this header.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "reports/play/play_difference.hpp"

namespace shardproof::reports {

/// The fact as a collective, if it is compared. Engines may choose how ranks agree on the sizes of extensions, as long
/// as they agree.
const fact::Collective* compared_collective(const Fact& fact);

struct CountsComparison {
  std::size_t collectives = 0;  ///< Compared collectives of the first subject, on all ranks.
  std::optional<PlayDifference> first;
};

/// Both plays have the same number of ranks. `first` is the first difference in this order: numbers by kind, numbers by
/// kind and tag, what is exchanged.
CountsComparison compare_counts(const std::vector<protocol::PlayResult>& first,
                                const std::vector<protocol::PlayResult>& second);

}  // namespace shardproof::reports
