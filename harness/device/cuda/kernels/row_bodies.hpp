// Bodies of the kernels on matrices and the rows that go with them.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/device/cuda/kernels/conversions.hpp"
#include "harness/device/cuda/kernels/portable.hpp"

namespace shardproof::device::cuda::bodies {

/// i is an element of `out`, whose rows have `length` elements. Positions are added by this kernel, too: then a row is
/// a whole sequence.
template <class T> struct AddRow {
  T* out;
  const T* row;
  std::int64_t length;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const { deliver(out[i], loaded(row[i % length]), true); }
};

/// i is an element of `out`, the sum of a column of `in`.
template <class T> struct SumRows {
  T* out;
  const T* in;
  std::int64_t rows, length;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    Computed<T> total{0};
    for (std::int64_t row = 0; row < rows; ++row) total += loaded(in[row * length + i]);
    deliver(out[i], total, add);
  }
};

/// The mean that layer norm subtracts from a row, and the factor that it applies.
template <class T> struct Moments {
  using C = Computed<T>;

  SHARDPROOF_HOST_DEVICE Moments(const T* row, std::int64_t length) {
    const C count = static_cast<C>(length);
    for (std::int64_t j = 0; j < length; ++j) mean += loaded(row[j]);
    mean /= count;
    C variance{0};
    for (std::int64_t j = 0; j < length; ++j) variance += (loaded(row[j]) - mean) * (loaded(row[j]) - mean);
    variance /= count;
    inverse_deviation = C{1} / std::sqrt(variance + static_cast<C>(1e-5));
  }
  SHARDPROOF_HOST_DEVICE C normalized(T x) const { return (loaded(x) - mean) * inverse_deviation; }

  C mean{0}, inverse_deviation{0};
};

/// i is a row.
template <class T> struct LayerNorm {
  T* out;
  const T* in;
  const T* weight;
  const T* bias;
  std::int64_t length;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const T* const row = in + i * length;
    const Moments<T> moments(row, length);
    for (std::int64_t j = 0; j < length; ++j) {
      out[i * length + j] = rounded<T>(moments.normalized(row[j]) * loaded(weight[j]) + loaded(bias[j]));
    }
  }
};

/// The gradient by the input; i is a row. Moving one element moves the mean and the deviation of its whole row.
template <class T> struct LayerNormBackwardIn {
  T* out;
  const T* grad_out;
  const T* in;
  const T* weight;
  std::int64_t length;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const T* const row = in + i * length;
    const T* const slope = grad_out + i * length;
    const Moments<T> moments(row, length);
    Computed<T> by_mean{0}, by_deviation{0};
    for (std::int64_t j = 0; j < length; ++j) {
      by_mean += loaded(slope[j]) * loaded(weight[j]);
      by_deviation += loaded(slope[j]) * loaded(weight[j]) * moments.normalized(row[j]);
    }
    by_mean /= static_cast<Computed<T>>(length);
    by_deviation /= static_cast<Computed<T>>(length);
    for (std::int64_t j = 0; j < length; ++j) {
      const Computed<T> below = moments.inverse_deviation * (loaded(slope[j]) * loaded(weight[j]) - by_mean -
                                                             moments.normalized(row[j]) * by_deviation);
      deliver(out[i * length + j], below, add);
    }
  }
};

/// The gradient by the weight; i is an element of it. SumRows computes the gradient by the bias. Every element computes
/// the moments of every row again, because storing them would take memory.
template <class T> struct LayerNormBackwardWeight {
  T* out;
  const T* grad_out;
  const T* in;
  std::int64_t rows, length;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    Computed<T> total{0};
    for (std::int64_t row = 0; row < rows; ++row) {
      const Moments<T> moments(in + row * length, length);
      total += loaded(grad_out[row * length + i]) * moments.normalized(in[row * length + i]);
    }
    deliver(out[i], total, add);
  }
};

}  // namespace shardproof::device::cuda::bodies
