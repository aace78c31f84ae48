// Checks whether all ranks made the same calls of NCCL, in the same order. It uses only their records, and is pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "harness/protocol/nccl_record.hpp"

namespace shardproof::trace {

struct OrderDifference {
  enum class What : std::uint8_t {
    differs,  ///< The two ranks asked for different things in one place.
    absent,   ///< One of the ranks has not made its call.
  };

  What what = What::differs;
  std::size_t first = 0, second = 0;  ///< the indices of the two records, as given
  std::string sentence;  ///< names both, their communicator, and both calls
};

/// The first place where ranks differ in what reached NCCL on a communicator. Calls that differ come before a missing
/// call.
///
/// Collectives are compared by kind, count, type, operation and root, in the order of each communicator. Sends are
/// compared by count and type, with the receives that they meet. If a record has lost its beginning, its end is
/// compared.
///
/// The communicators of two ranks are the same if their keys are equal. If one has no key, they are the same if they
/// have the same size and the same place in the order of creation.
std::optional<OrderDifference> first_difference(std::span<const protocol::TapRecord> ranks);

}  // namespace shardproof::trace
