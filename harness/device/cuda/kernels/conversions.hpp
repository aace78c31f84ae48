// Loads and stores elements of every dtype: from memory to a float, double or integer in a register, and back. The
// conversions equal those of harness/tensor/elements.hpp bit for bit, NaN included.
//
// Rules:
// - between floating types: one rounding to nearest even
// - from floating types to integers: toward zero, saturating, NaN to 0
// - between integers: modulo the range
//
// This file takes bf16 and f16 apart itself, because neither the vendor's nor Eigen's types compile everywhere.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "harness/device/cuda/kernels/portable.hpp"
#include "harness/protocol/collective.hpp"

namespace shardproof::device::cuda::bodies {

SHARDPROOF_HOST_DEVICE constexpr bool is_integer(DType type) { return type >= DType::i64; }
static_assert(is_integer(DType::u8) && is_integer(DType::i32) && !is_integer(DType::f16));

SHARDPROOF_HOST_DEVICE inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
SHARDPROOF_HOST_DEVICE inline std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }
SHARDPROOF_HOST_DEVICE inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// float(value). A NaN keeps its sign and the upper bits of its payload, as on x86. (A GPU's own conversion makes all
/// NaNs equal.)
SHARDPROOF_HOST_DEVICE inline float narrowed(double value) {
  if (!std::isnan(value)) return static_cast<float>(value);
  const std::uint64_t bits = bits_of(value);
  return float_of(static_cast<std::uint32_t>(bits >> 63) << 31 | 0x7fc00000u |
                  (static_cast<std::uint32_t>(bits >> 29) & 0x3fffffu));
}

SHARDPROOF_HOST_DEVICE inline double widened(float value) {
  if (!std::isnan(value)) return static_cast<double>(value);
  const std::uint64_t bits = bits_of(value);
  return std::bit_cast<double>((bits >> 31) << 63 | 0x7ff8000000000000u | (bits & 0x3fffffu) << 29);
}

/// The float next to `value`, rounded to odd. Rounding it again to a narrower type gives the same as one rounding of
/// `value`.
SHARDPROOF_HOST_DEVICE inline float rounded_to_odd(double value) {
  const float nearest = narrowed(value);
  const double back = nearest;
  const std::uint32_t bits = bits_of(nearest);
  if (std::isnan(value) || back == value || (bits & 1u) != 0) return nearest;
  const bool outward = (back < 0 ? -back : back) < (value < 0 ? -value : value);
  return float_of(outward
                      ? bits + 1
                      : bits - 1);  // the next magnitude up or down; infinity's lower neighbour is the largest number
}

SHARDPROOF_HOST_DEVICE inline float from_bf16(std::uint16_t bits) {
  return float_of(static_cast<std::uint32_t>(bits) << 16);
}

SHARDPROOF_HOST_DEVICE inline std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | 0x7fc0u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

SHARDPROOF_HOST_DEVICE inline float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u,
                      fraction = bits & 0x3ffu;
  if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent == 0) return float_of(sign | bits_of(static_cast<float>(fraction) * 0x1p-24f));
  return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

SHARDPROOF_HOST_DEVICE inline std::uint16_t to_f16(float value) {
  const std::uint32_t sign = bits_of(value) >> 16 & 0x8000u, magnitude = bits_of(value) & 0x7fffffffu;
  std::uint32_t rounded = 0;
  if (magnitude > 0x7f800000u) {
    rounded = 0x7e00u;
  } else if (magnitude >= 0x47800000u) {  // from 65536; smaller numbers that round up to it carry into infinity's bits
    rounded = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // from 2^-14: normal numbers, whose exponents differ by 112
    rounded = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  } else if (magnitude >= 0x33000000u) {  // from 2^-25: units of 2^-24
    const std::uint32_t digits = (magnitude & 0x7fffffu) | 0x800000u, shift = 126u - (magnitude >> 23);
    rounded = (digits + (1u << (shift - 1)) - 1 + (digits >> shift & 1u)) >> shift;
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

/// `To` is an integer type.
template <class To, class From> SHARDPROOF_HOST_DEVICE To saturated(From value) {
  constexpr To lowest = std::numeric_limits<To>::min(), highest = std::numeric_limits<To>::max();
  if (std::isnan(value)) return To{0};
  if (value <= static_cast<From>(lowest)) return lowest;
  if (value >= static_cast<From>(highest)) return highest;
  return static_cast<To>(value);
}

/// Element i of an integer dtype.
SHARDPROOF_HOST_DEVICE inline std::int64_t load_integer(DType type, const void* from, std::int64_t i) {
  switch (type) {
    case DType::i64: return static_cast<const std::int64_t*>(from)[i];
    case DType::i32: return static_cast<const std::int32_t*>(from)[i];
    case DType::i16: return static_cast<const std::int16_t*>(from)[i];
    case DType::i8: return static_cast<const std::int8_t*>(from)[i];
    default: return static_cast<const std::uint8_t*>(from)[i];
  }
}

SHARDPROOF_HOST_DEVICE inline float as(double value, float) { return narrowed(value); }
SHARDPROOF_HOST_DEVICE inline double as(double value, double) { return value; }
SHARDPROOF_HOST_DEVICE inline float as(float value, float) { return value; }
SHARDPROOF_HOST_DEVICE inline double as(float value, double) { return widened(value); }

/// Element i of any dtype, as `C`: float or double.
template <class C> SHARDPROOF_HOST_DEVICE C load(DType type, const void* from, std::int64_t i) {
  switch (type) {
    case DType::f64: return as(static_cast<const double*>(from)[i], C{});
    case DType::f32: return as(static_cast<const float*>(from)[i], C{});
    case DType::bf16: return as(from_bf16(static_cast<const std::uint16_t*>(from)[i]), C{});
    case DType::f16: return as(from_f16(static_cast<const std::uint16_t*>(from)[i]), C{});
    default: return static_cast<C>(load_integer(type, from, i));
  }
}

/// Prepares a value for bf16 or f16, so that it is rounded once in all.
SHARDPROOF_HOST_DEVICE inline float before_narrowing(double value) { return rounded_to_odd(value); }
SHARDPROOF_HOST_DEVICE inline float before_narrowing(float value) { return value; }

/// `C` is float or double.
template <class C> SHARDPROOF_HOST_DEVICE void store(DType type, void* to, std::int64_t i, C value) {
  switch (type) {
    case DType::f64: static_cast<double*>(to)[i] = as(value, double{}); return;
    case DType::f32: static_cast<float*>(to)[i] = as(value, float{}); return;
    case DType::bf16: static_cast<std::uint16_t*>(to)[i] = to_bf16(before_narrowing(value)); return;
    case DType::f16: static_cast<std::uint16_t*>(to)[i] = to_f16(before_narrowing(value)); return;
    case DType::i64: static_cast<std::int64_t*>(to)[i] = saturated<std::int64_t>(value); return;
    case DType::i32: static_cast<std::int32_t*>(to)[i] = saturated<std::int32_t>(value); return;
    case DType::i16: static_cast<std::int16_t*>(to)[i] = saturated<std::int16_t>(value); return;
    case DType::i8: static_cast<std::int8_t*>(to)[i] = saturated<std::int8_t>(value); return;
    case DType::u8: static_cast<std::uint8_t*>(to)[i] = saturated<std::uint8_t>(value); return;
  }
}

/// An integer, to any dtype.
SHARDPROOF_HOST_DEVICE inline void store_integer(DType type, void* to, std::int64_t i, std::int64_t value) {
  switch (type) {
    case DType::f64: static_cast<double*>(to)[i] = static_cast<double>(value); return;
    case DType::f32: static_cast<float*>(to)[i] = static_cast<float>(value); return;
    case DType::bf16:
    case DType::f16: store(type, to, i, static_cast<double>(value)); return;
    case DType::i64: static_cast<std::int64_t*>(to)[i] = value; return;
    case DType::i32: static_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(value); return;
    case DType::i16: static_cast<std::int16_t*>(to)[i] = static_cast<std::int16_t>(value); return;
    case DType::i8: static_cast<std::int8_t*>(to)[i] = static_cast<std::int8_t>(value); return;
    case DType::u8: static_cast<std::uint8_t*>(to)[i] = static_cast<std::uint8_t>(value); return;
  }
}

/// Elements of low precision in memory.
struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

/// An element in the type that kernels compute in: float for low precision.
SHARDPROOF_HOST_DEVICE inline float loaded(float element) { return element; }
SHARDPROOF_HOST_DEVICE inline double loaded(double element) { return element; }
SHARDPROOF_HOST_DEVICE inline float loaded(Bf16 element) { return from_bf16(element.bits); }
SHARDPROOF_HOST_DEVICE inline float loaded(F16 element) { return from_f16(element.bits); }

/// The type that a kernel on elements T computes in.
template <class T> using Computed = decltype(loaded(T{}));

/// The one rounding of a result, to nearest even.
template <class T> SHARDPROOF_HOST_DEVICE T rounded(Computed<T> result) {
  if constexpr (std::is_same_v<T, Bf16>) return {to_bf16(result)};
  else if constexpr (std::is_same_v<T, F16>) return {to_f16(result)};
  else return result;
}

/// Writes a gradient to its target, or adds the finished sum to the target at once.
template <class T> SHARDPROOF_HOST_DEVICE void deliver(T& target, Computed<T> finished, bool add) {
  target = rounded<T>(add ? loaded(target) + finished : finished);
}

}  // namespace shardproof::device::cuda::bodies
