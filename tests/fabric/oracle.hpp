// The expected results of collectives, computed serially and without the fabric. Operands of all ranks are functions of
// (rank, index, seed).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include <Eigen/Core>

#include "harness/protocol/collective.hpp"

namespace shardproof::testing {

template <class T> struct DTypeOf;
template <> struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <> struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <> struct DTypeOf<Eigen::bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <> struct DTypeOf<Eigen::half> {
  static constexpr DType value = DType::f16;
};
template <> struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <> struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <> struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::i16;
};
template <> struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::i8;
};
template <> struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Floats of either sign that use all their digits, so that the order of additions changes sums; integers over their
/// whole range.
template <class T>
T operand(int rank, std::size_t index, std::uint64_t seed) {
  const std::uint64_t bits = mixed(seed ^ mixed(static_cast<std::uint64_t>(rank) << 40 ^ index));
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    const double wide = static_cast<double>(static_cast<std::int64_t>(bits)) / 9223372036854775808.0;  // in [-1, 1)
    return static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(wide * 8));
  }
}

template <class T>
std::vector<T> operands(int rank, std::size_t count, std::uint64_t seed) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = operand<T>(rank, i, seed);
  return values;
}

/// Computes integers in 64-bit two's complement, and cuts the result. This equals wrapping around at every step.
template <class T>
T folded(ReduceOp op, double factor, int size, std::size_t index, std::uint64_t seed) {
  if constexpr (std::is_integral_v<T>) {
    std::uint64_t wide = 0;
    T least = operand<T>(0, index, seed), most = least;
    for (int rank = 0; rank < size; ++rank) {
      const T value = operand<T>(rank, index, seed);
      if (value < least) least = value;
      if (value > most) most = value;
      const auto by = static_cast<std::uint64_t>(op == ReduceOp::premul_sum ? static_cast<std::int64_t>(factor) : 1);
      wide += static_cast<std::uint64_t>(value) * by;
    }
    if (op == ReduceOp::max) return most;
    if (op == ReduceOp::min) return least;
    const T sum = static_cast<T>(wide);
    return op == ReduceOp::avg ? static_cast<T>(sum / static_cast<T>(size)) : sum;
  } else {
    const T by = static_cast<T>(static_cast<float>(factor));
    T result = operand<T>(0, index, seed);
    if (op == ReduceOp::premul_sum) result = result * by;
    for (int rank = 1; rank < size; ++rank) {
      const T value = operand<T>(rank, index, seed);
      if (op == ReduceOp::max) {
        if (value > result) result = value;
      } else if (op == ReduceOp::min) {
        if (value < result) result = value;
      } else {
        result = result + (op == ReduceOp::premul_sum ? value * by : value);
      }
    }
    return op == ReduceOp::avg ? static_cast<T>(result / static_cast<T>(static_cast<float>(size))) : result;
  }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace shardproof::testing
