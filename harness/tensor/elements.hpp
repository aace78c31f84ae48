// Maps a DType to the C++ type of its elements, and back. Only source files that compute with elements should use it,
// to keep Eigen out of the public headers.
#pragma once

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "harness/protocol/collective.hpp"

namespace shardproof::tensor::elements {

template <class T> struct Type {
  using type = T;
};

template <class T> inline constexpr bool low_precision =
    std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>;

template <class T> constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, Eigen::bfloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, Eigen::half>) return DType::f16;
  else if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  else if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, std::int16_t>) return DType::i16;
  else if constexpr (std::is_same_v<T, std::int8_t>) return DType::i8;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no dtype has such elements");
    return DType::u8;
  }
}

/// Calls `body` with the Type of the dtype's elements.
template <class Body> decltype(auto) visit(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f64: return body(Type<double>{});
    case DType::f32: return body(Type<float>{});
    case DType::bf16: return body(Type<Eigen::bfloat16>{});
    case DType::f16: return body(Type<Eigen::half>{});
    case DType::i64: return body(Type<std::int64_t>{});
    case DType::i32: return body(Type<std::int32_t>{});
    case DType::i16: return body(Type<std::int16_t>{});
    case DType::i8: return body(Type<std::int8_t>{});
    case DType::u8: return body(Type<std::uint8_t>{});
  }
  throw std::invalid_argument("not a dtype: " + std::to_string(static_cast<int>(dtype)));
}

/// The float next to `value`, rounded to odd. Rounding it again to a narrower type gives the same as one rounding of
/// `value`.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (std::isnan(value) || back == value || (std::bit_cast<std::uint32_t>(nearest) & 1u) != 0) return nearest;
  const float toward = back < value ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  return std::nextafter(nearest, toward);
}

/// Converts an element:
/// - between floating types: one rounding to nearest even
/// - from floating to integer types: toward zero, saturating, NaN to 0
/// - between integer types: modulo the range
template <class To, class From> To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (low_precision<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (low_precision<To>) {
    if constexpr (std::is_same_v<From, float>) return static_cast<To>(value);
    else return static_cast<To>(round_to_odd(static_cast<double>(value)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (std::isnan(value)) return To{0};
    if (value <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace shardproof::tensor::elements
