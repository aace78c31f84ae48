#include <algorithm>
#include <cmath>

#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::tensor::cpu {

using operands::visit_real;

namespace {

/// The mean that layer norm subtracts from a row, and the factor that it applies.
template <class T> struct Moments {
  explicit Moments(std::span<const T> row) {
    const T count = static_cast<T>(row.size());
    for (const T x : row) mean += x;
    mean /= count;
    T variance{0};
    for (const T x : row) variance += (x - mean) * (x - mean);
    variance /= count;
    inverse_deviation = T{1} / std::sqrt(variance + static_cast<T>(1e-5));
  }
  T normalized(T x) const { return (x - mean) * inverse_deviation; }

  T mean{0}, inverse_deviation{0};
};

/// The larger one, and NaN when either is.
template <class T> T larger(T a, T b) { return std::isnan(a) || a > b ? a : b; }

template <class T> T power_of(T magnitude, double power) {
  if (power == 1) return magnitude;
  if (power == 2) return magnitude * magnitude;
  return std::pow(magnitude, static_cast<T>(power));
}

template <class T> T root_of(T sum, double power) {
  if (power == 1 || std::isinf(power)) return sum;
  if (power == 2) return std::sqrt(sum);
  return std::pow(sum, static_cast<T>(1 / power));
}

}  // namespace

void CpuKernels::layer_norm(NativeStream, const Tensor& out, const Tensor& in, const Tensor& weight,
                            const Tensor& bias) const {
  const operands::Rows shape = operands::layer_norm(out, in, weight, bias);
  const Tensor matrix = widened(in), factors = widened(weight), offsets = widened(bias), result = widened(out);
  visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto target = result.values<T>(), factor = factors.values<T>(), offset = offsets.values<T>();
    for (std::size_t i = 0; i < shape.count; ++i) {
      const std::span<const T> row = matrix.values<T>().subspan(i * shape.length, shape.length);
      const Moments<T> moments(row);
      for (std::size_t j = 0; j < row.size(); ++j)
        target[i * row.size() + j] = moments.normalized(row[j]) * factor[j] + offset[j];
    }
  });
  round_to(out, result);
}

void CpuKernels::layer_norm_backward(NativeStream, const LayerNormGradients& gradients, const Tensor& grad_out,
                                     const Tensor& in, const Tensor& weight) const {
  const operands::Rows shape = operands::layer_norm_backward(gradients, grad_out, in, weight);
  const bool by_in = gradients.in.out.defined();
  const Tensor above = widened(grad_out), matrix = widened(in), factors = widened(weight);
  visit_real(grad_out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T features = static_cast<T>(shape.length);
    std::vector<T> below(by_in ? shape.count * shape.length : 0), weight_total(shape.length), bias_total(shape.length);
    for (std::size_t i = 0; i < shape.count; ++i) {
      const std::span<const T> row = matrix.values<T>().subspan(i * shape.length, shape.length);
      const std::span<const T> slope = above.values<T>().subspan(i * shape.length, shape.length);
      const Moments<T> moments(row);
      for (std::size_t j = 0; j < row.size(); ++j) {
        weight_total[j] += slope[j] * moments.normalized(row[j]);
        bias_total[j] += slope[j];
      }
      if (!by_in) continue;
      // Moving one element moves the mean and the deviation of its whole row.
      const auto factor = factors.values<T>();
      T by_mean{0}, by_deviation{0};
      for (std::size_t j = 0; j < row.size(); ++j) {
        by_mean += slope[j] * factor[j];
        by_deviation += slope[j] * factor[j] * moments.normalized(row[j]);
      }
      by_mean /= features;
      by_deviation /= features;
      for (std::size_t j = 0; j < row.size(); ++j) {
        below[i * row.size() + j] =
            moments.inverse_deviation * (slope[j] * factor[j] - by_mean - moments.normalized(row[j]) * by_deviation);
      }
    }
    deliver(gradients.in, below);
    deliver(gradients.weight, weight_total);
    deliver(gradients.bias, bias_total);
  });
}

void CpuKernels::power_sum(NativeStream, const Tensor& out, const Tensor& in, double power, bool add) const {
  operands::power_sum(out, in, power);
  visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T& there = out.values<T>()[0];
    T total{0};
    if (std::isinf(power)) {
      for (const T x : in.values<T>()) total = larger(std::abs(x), total);
      there = add ? larger(there, total) : total;
    } else {
      for (const T x : in.values<T>()) total += power_of(std::abs(x), power);
      there = add ? there + total : total;
    }
  });
}

void CpuKernels::power_root(NativeStream, const Tensor& out, const Tensor& in, double power) const {
  operands::power_root(out, in, power);
  visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::ranges::transform(in.values<T>(), out.values<T>().begin(), [power](T sum) { return root_of(sum, power); });
  });
}

void CpuKernels::clip(NativeStream, const Tensor& gradient, const Tensor& total_norm, double max_norm) const {
  operands::clip(gradient, total_norm);
  visit_real(gradient.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T coefficient = static_cast<T>(max_norm) / (total_norm.values<T>()[0] + static_cast<T>(1e-6));
    // NaN is not above 1 and passes through: gradients without a norm must not look healthy.
    const T factor = coefficient > T{1} ? T{1} : coefficient;
    for (T& element : gradient.values<T>()) element *= factor;
  });
}

}  // namespace shardproof::tensor::cpu
