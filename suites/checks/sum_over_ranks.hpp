// A sum over all ranks, for checks whose finding may be on one rank only.
#pragma once

#include <array>
#include <cstdint>

#include "harness/tensor/tensor.hpp"
#include "harness/world/rank.hpp"

namespace shardproof::suites {

/// Every rank must call it with its own number, and gets the sum of all numbers.
inline std::int64_t sum_over_ranks(Rank& rank, std::int64_t mine) {
  return rank.world().all_reduce(Tensor::of<std::int64_t>({1}, std::array{mine})).values<std::int64_t>()[0];
}

}  // namespace shardproof::suites
