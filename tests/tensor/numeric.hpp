// Compares kernels with a second implementation of their formulas, in double precision.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "harness/tensor/kernels.hpp"

namespace shardproof::numeric {

using Values = std::vector<double>;

inline const Kernels& k = cpu_kernels();
inline const float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr float f32_infinity = std::numeric_limits<float>::infinity();
/// Half of the last bit of 1: in f32, 1 + half_ulp + half_ulp is 1, and half_ulp + half_ulp + 1 is more.
constexpr float half_ulp = 0x1p-24F;

inline Tensor f32(Shape shape, std::vector<float> values) { return Tensor::of<float>(std::move(shape), values); }

/// Multiples of 1/64 in [-2, 2]: exact in f32.
inline Values draw(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> small(-128, 128);
  Values values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(small(random) / 64.0);
  return values;
}

inline Tensor tensor(DType dtype, const Shape& shape, const Values& values) {
  const Tensor result = Tensor::host(dtype, shape);
  cpu_kernels().copy(nullptr, result, Tensor::of<double>(shape, values));
  return result;
}

/// The gradient of sum(weight * f(at)) by `at`, by central differences.
inline Values slopes(const std::function<Values(const Values&)>& f, const Values& at, const Values& weight) {
  constexpr double step = 1e-5;
  const auto total = [&](std::size_t moved, double by) {
    Values there = at;
    there[moved] += by;
    const Values result = f(there);
    double sum = 0;
    for (std::size_t i = 0; i < result.size(); ++i) sum += result[i] * weight[i];
    return sum;
  };
  Values gradient;
  for (std::size_t i = 0; i < at.size(); ++i) gradient.push_back((total(i, step) - total(i, -step)) / (2 * step));
  return gradient;
}

inline Values plus(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

constexpr DType real_dtypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

/// The relative error of one rounding to a dtype of low precision.
inline double unit_roundoff(DType dtype) { return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0; }

/// Compares up to the rounding of the tensor's dtype, for values of a few units. In low precision the tolerance is one
/// rounding of the f32 result.
inline void check_close(const Tensor& actual, const Values& expected) {
  const double computed = actual.dtype() == DType::f64 ? 1e-8 : 1e-5;
  const Values found = actual.to_doubles();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(to_string(actual.dtype()), i, found[i], expected[i]);
    CHECK(std::abs(found[i] - expected[i]) <= computed + unit_roundoff(actual.dtype()) * std::abs(expected[i]));
  }
}

}  // namespace shardproof::numeric
