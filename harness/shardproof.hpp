// All that a program of ranked tests needs. Link it to `shardproof::main`.
#pragma once

#include <cstdint>

#include "harness/cases/ranked_test_case.hpp"
#include "harness/fabric/group.hpp"
#include "harness/tensor/tensor.hpp"
#include "harness/world/rank.hpp"

namespace shardproof {

/// f32 [length]: start, start + 1, … for starts that are counted, such as `rank.index() * 10`.
inline Tensor iota(int start, std::int64_t length) { return iota(static_cast<float>(start), length); }

}  // namespace shardproof

using shardproof::iota;
using shardproof::Rank;
