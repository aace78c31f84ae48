// Formulas for values, without a random number generator. Values are small integers over a divisor, exact in every
// floating dtype. fixtures/oracles/golden/README.md defines the formula. A PyTorch run has used it for the golden
// files.
#pragma once

#include <cstdint>

#include "harness/tensor/tensor.hpp"

namespace shardproof::formula {

/// 32 mixed bits of (seed, index).
constexpr std::uint32_t bits(std::uint32_t seed, std::uint32_t index) {
  std::uint32_t u = seed * 2654435761u + index * 40503u + 12345u;
  u ^= u >> 15;
  u *= 2246822519u;
  return u ^ (u >> 13);
}

/// An integer in [-4, 4].
constexpr int small_integer(std::uint32_t seed, std::uint32_t index) {
  return static_cast<int>(bits(seed, index) % 9) - 4;
}

/// An integer in [-4, 4], distributed like the number of heads of 16 coins, less 8. Results beyond two deviations do
/// not count.
int bell_integer(std::uint32_t seed, std::uint32_t index);

/// f32 on the host; element i (row-major) is small_integer(seed, i) / divisor.
Tensor tensor(std::uint32_t seed, const Shape& shape, int divisor);

/// f32 on the host; element i (row-major) is bell_integer(seed, i) / divisor.
Tensor truncated_normal(std::uint32_t seed, const Shape& shape, int divisor);

/// i64 on the host; element i (row-major) is bits(seed, i) mod count.
Tensor tokens(std::uint32_t seed, const Shape& shape, std::int64_t count);

}  // namespace shardproof::formula
