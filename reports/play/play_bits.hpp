// Do two subjects' captured values agree, to the bit or nearly? Inner header of play_difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reports/play/play_difference.hpp"

namespace shardproof::reports {

struct BitsComparison {
  std::size_t compared = 0;  ///< values
  std::optional<PlayDifference> first;
};

/// Of as many ranks. First by capture, then the loss, gradients, parameters, then by rank, in order of registration.
BitsComparison compare_bits(const std::vector<PlayResult>& first, const std::vector<PlayResult>& second, std::uint64_t ulps);

}  // namespace shardproof::reports
