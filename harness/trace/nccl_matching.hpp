// Did all ranks make the same calls of NCCL, in the same order? From their records alone, and pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "harness/protocol/nccl_record.hpp"

namespace shardproof::nccl_tap {

struct OrderDifference {
  enum class What : std::uint8_t {
    differs,  ///< the two ranks asked for different things in one place
    absent,   ///< one of them has not come
  };

  What what = What::differs;
  std::size_t first = 0, second = 0;  ///< whose records, as given
  std::string sentence;  ///< names both, their communicator, and both calls
};

/// The first place where ranks differ in what reached NCCL on a communicator; ones that asked for different things go before one that has not
/// come. Compared are collectives by kind, count, type, operation and root, in the order of each communicator, and of sends the count and type
/// with those of the receives that they meet. The communicators of two ranks are one if their keys are, and where one has none, if they are of
/// the same place in the order of creation and of the same size. Of a record that has lost its beginning, the end is compared.
std::optional<OrderDifference> first_difference(std::span<const TapRecord> ranks);

}  // namespace shardproof::nccl_tap
