// Bodies of the kernels that reduce many numbers to one: losses and norms. Unless a comment says otherwise, there is
// one result and i is 0: sums ascend, so one thread computes it all. A loss has its own dtype, which may be f32 if its
// operands are of low precision.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/device/cuda/kernels/conversions.hpp"
#include "harness/device/cuda/kernels/portable.hpp"

namespace shardproof::device::cuda::bodies {

template <class T> struct Sum {
  void* out;
  DType out_type;
  const T* in;
  std::int64_t count;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t) const {
    Computed<T> total{0};
    for (std::int64_t i = 0; i < count; ++i) total += loaded(in[i]);
    store(out_type, out, 0, total);
  }
};

template <class T> struct SumOfSquares {
  void* out;
  DType out_type;
  const T* in;
  std::int64_t count;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t) const {
    Computed<T> total{0};
    for (std::int64_t i = 0; i < count; ++i) total += loaded(in[i]) * loaded(in[i]);
    store(out_type, out, 0, total);
  }
};

template <class T> struct Dot {
  T* out;
  const T* a;
  const T* b;
  std::int64_t count;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t) const {
    Computed<T> total{0};
    for (std::int64_t i = 0; i < count; ++i) total += loaded(a[i]) * loaded(b[i]);
    deliver(*out, total, add);
  }
};

template <class T> struct DotRows {
  void* out;
  DType out_type;
  const T* in;
  const T* row;
  std::int64_t rows, length;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t) const {
    Computed<T> total{0};
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < length; ++j) total += loaded(in[i * length + j]) * loaded(row[j]);
    }
    store(out_type, out, 0, total);
  }
};

/// A row's largest element, and the sum of exp(element - largest). The row is not empty.
template <class T> struct Exponentials {
  SHARDPROOF_HOST_DEVICE Exponentials(const T* row, std::int64_t length) : largest(loaded(row[0])) {
    for (std::int64_t j = 1; j < length; ++j) {
      if (largest < loaded(row[j])) largest = loaded(row[j]);
    }
    for (std::int64_t j = 0; j < length; ++j) total += std::exp(loaded(row[j]) - largest);
  }
  Computed<T> largest, total{0};
};

template <class T> struct CrossEntropy {
  void* out;
  DType out_type;
  const T* logits;
  const std::int64_t* targets;
  std::int64_t rows, length;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t) const {
    Computed<T> total{0};
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t target = targets[i];
      if (target < 0 || target >= length) continue;
      const T* const row = logits + i * length;
      const Exponentials<T> exponentials(row, length);
      total += std::log(exponentials.total) + exponentials.largest - loaded(row[target]);
    }
    store(out_type, out, 0, total / static_cast<Computed<T>>(rows));
  }
};

/// i is a row.
template <class T> struct CrossEntropyBackward {
  T* grad_logits;
  const T* logits;
  const std::int64_t* targets;
  std::int64_t rows, length;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    if (length == 0) return;
    using C = Computed<T>;
    const T* const row = logits + i * length;
    const Exponentials<T> exponentials(row, length);
    for (std::int64_t j = 0; j < length; ++j) {
      const C probability = std::exp(loaded(row[j]) - exponentials.largest) / exponentials.total;
      grad_logits[i * length + j] =
          rounded<T>((targets[i] == j ? probability - C{1} : probability) / static_cast<C>(rows));
    }
  }
};

/// The larger one, and NaN when either is.
template <class T> SHARDPROOF_HOST_DEVICE T larger(T a, T b) { return std::isnan(a) || a > b ? a : b; }

template <class T> SHARDPROOF_HOST_DEVICE T power_of(T magnitude, double power) {
  if (power == 1) return magnitude;
  if (power == 2) return magnitude * magnitude;
  return std::pow(magnitude, static_cast<T>(power));
}

template <class T> struct PowerSum {
  T* out;
  const T* in;
  std::int64_t count;
  double power;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t) const {
    T total{0};
    if (std::isinf(power)) {
      for (std::int64_t i = 0; i < count; ++i) total = larger(std::abs(in[i]), total);
      *out = add ? larger(*out, total) : total;
    } else {
      for (std::int64_t i = 0; i < count; ++i) total += power_of(std::abs(in[i]), power);
      deliver(*out, total, add);
    }
  }
};

/// i is an element of `out`.
template <class T> struct PowerRoot {
  T* out;
  const T* in;
  double power;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    if (power == 1 || std::isinf(power)) out[i] = in[i];
    else if (power == 2) out[i] = std::sqrt(in[i]);
    else out[i] = std::pow(in[i], static_cast<T>(1 / power));
  }
};

/// i is an element of the gradient.
template <class T> struct Clip {
  T* gradient;
  const T* total_norm;
  T max_norm;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const T coefficient = max_norm / (*total_norm + static_cast<T>(1e-6));
    // NaN is not above 1 and passes through: gradients without a norm must not look healthy.
    gradient[i] *= coefficient > T{1} ? T{1} : coefficient;
  }
};

}  // namespace shardproof::device::cuda::bodies
