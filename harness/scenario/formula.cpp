#include "harness/scenario/formula.hpp"

namespace shardproof::formula {

Tensor tensor(std::uint32_t seed, const Shape& shape, int divisor) {
  Tensor result = Tensor::host(DType::f32, shape);
  std::uint32_t index = 0;
  for (float& value : result.values<float>()) value = static_cast<float>(small_integer(seed, index++)) / static_cast<float>(divisor);
  return result;
}

Tensor tokens(std::uint32_t seed, const Shape& shape, std::int64_t count) {
  Tensor result = Tensor::host(DType::i64, shape);
  std::uint32_t index = 0;
  for (std::int64_t& value : result.values<std::int64_t>()) value = static_cast<std::int64_t>(bits(seed, index++)) % count;
  return result;
}

}  // namespace shardproof::formula
