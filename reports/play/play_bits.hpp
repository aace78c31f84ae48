// Compares two subjects' captured values, bit by bit or nearly. Only play_difference.cpp uses this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reports/play/play_difference.hpp"

namespace shardproof::reports {

struct BitsComparison {
  std::size_t compared = 0;  ///< compared values
  std::optional<PlayDifference> first;
};

/// Both subjects have the same number of ranks. `first` is the first difference in this order:
///   1. A different number of captures.
///   2. By capture: the loss, missing parameters, gradients, parameters, second tensors of parameters.
///   3. By rank, in order of registration.
BitsComparison compare_bits(const std::vector<protocol::PlayResult>& first,
                            const std::vector<protocol::PlayResult>& second, std::uint64_t ulps);

}  // namespace shardproof::reports
