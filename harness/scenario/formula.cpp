#include "harness/scenario/formula.hpp"

#include <array>

namespace shardproof::formula {

namespace {

// Sums of C(16, n) from n = 4 up to n = 4 … 12: the throws of 16 coins with at least 4 and at most n heads.
constexpr std::array<std::uint32_t, 9> throws{1820, 6188, 14196, 25636, 38506, 49946, 57954, 62322, 64142};

Tensor divided(const Shape& shape, int divisor, std::uint32_t seed,
               int (*integer)(std::uint32_t seed, std::uint32_t index)) {
  Tensor result = Tensor::host(DType::f32, shape);
  std::uint32_t index = 0;
  for (float& value : result.values<float>())
    value = static_cast<float>(integer(seed, index++)) / static_cast<float>(divisor);
  return result;
}

}  // namespace

int bell_integer(std::uint32_t seed, std::uint32_t index) {
  const auto* const reached = std::ranges::upper_bound(throws, bits(seed, index) % throws.back());
  return static_cast<int>(reached - throws.begin()) - 4;
}

Tensor tensor(std::uint32_t seed, const Shape& shape, int divisor) {
  return divided(shape, divisor, seed, small_integer);
}

Tensor truncated_normal(std::uint32_t seed, const Shape& shape, int divisor) {
  return divided(shape, divisor, seed, bell_integer);
}

Tensor tokens(std::uint32_t seed, const Shape& shape, std::int64_t count) {
  Tensor result = Tensor::host(DType::i64, shape);
  std::uint32_t index = 0;
  for (std::int64_t& value : result.values<std::int64_t>())
    value = static_cast<std::int64_t>(bits(seed, index++)) % count;
  return result;
}

}  // namespace shardproof::formula
