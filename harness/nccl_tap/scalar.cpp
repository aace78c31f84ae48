#include "harness/nccl_tap/scalar.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace shardproof::nccl_tap {

using protocol::ElementType;

namespace {

template <class Number>
Number load(const void* element) {
  Number number;
  std::memcpy(&number, element, sizeof number);
  return number;
}

double value_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10U & 0x1f;
  const int fraction = bits & 0x3ff;
  const double sign = bits >> 15U == 0 ? 1.0 : -1.0;
  if (exponent == 0x1f)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(0x400 + fraction, exponent - 25));
}

}  // namespace

double scalar_value(const void* element, ElementType type) {
  switch (type) {
    case ElementType::i8: return load<std::int8_t>(element);
    case ElementType::u8: return load<std::uint8_t>(element);
    case ElementType::i32: return load<std::int32_t>(element);
    case ElementType::u32: return load<std::uint32_t>(element);
    case ElementType::i64: return static_cast<double>(load<std::int64_t>(element));
    case ElementType::u64: return static_cast<double>(load<std::uint64_t>(element));
    case ElementType::f16: return value_of_half(load<std::uint16_t>(element));
    case ElementType::f32: return static_cast<double>(load<float>(element));
    case ElementType::f64: return load<double>(element);
    case ElementType::bf16:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(element)) << 16U));
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace shardproof::nccl_tap
