#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::cpu {
namespace {

/// What layer norm takes off a row and multiplies it with.
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

void require_power(const char* kernel, double power) {
  if (!(power > 0)) throw std::invalid_argument(fmt::format("{}: a power of {}; it must be positive", kernel, power));
}

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

void CpuKernels::layer_norm(NativeStream, const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias) const {
  const Rows shape = rows_of("layer_norm", in, weight);
  const bool fit = out.numel() == in.numel() && bias.numel() == weight.numel();
  require(fit, "layer_norm", "out and in must have as many elements, weight and bias too", out, in, weight, bias);
  visit_real(
      "layer_norm",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const auto target = out.values<T>(), factor = weight.values<T>(), offset = bias.values<T>();
        for (std::size_t i = 0; i < shape.count; ++i) {
          const std::span<const T> row = in.values<T>().subspan(i * shape.length, shape.length);
          const Moments<T> moments(row);
          for (std::size_t j = 0; j < row.size(); ++j) target[i * row.size() + j] = moments.normalized(row[j]) * factor[j] + offset[j];
        }
      },
      out, in, weight, bias);
}

void CpuKernels::layer_norm_backward(NativeStream, const LayerNormGradients& gradients, const Tensor& grad_out, const Tensor& in,
                                     const Tensor& weight) const {
  const Rows shape = rows_of("layer_norm_backward", in);
  const bool by_in = gradients.in.out.defined();
  require(grad_out.numel() == in.numel() && fits(gradients.in, in), "layer_norm_backward", "operands must have as many elements",
          gradients.in.out, grad_out, in);
  for (const Tensor& row : {gradients.weight.out, gradients.bias.out, by_in ? weight : Tensor{}}) {
    require(!row.defined() || (row.dtype() == in.dtype() && static_cast<std::size_t>(row.numel()) == shape.length), "layer_norm_backward",
            "needs a matrix [m, n] and rows [n]", in, row);
  }
  require(!by_in || weight.defined(), "layer_norm_backward", "the gradient by the input needs the weight", weight);
  visit_real(
      "layer_norm_backward",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const T features = static_cast<T>(shape.length);
        std::vector<T> below(by_in ? shape.count * shape.length : 0), weight_total(shape.length), bias_total(shape.length);
        for (std::size_t i = 0; i < shape.count; ++i) {
          const std::span<const T> row = in.values<T>().subspan(i * shape.length, shape.length);
          const std::span<const T> slope = grad_out.values<T>().subspan(i * shape.length, shape.length);
          const Moments<T> moments(row);
          for (std::size_t j = 0; j < row.size(); ++j) {
            weight_total[j] += slope[j] * moments.normalized(row[j]);
            bias_total[j] += slope[j];
          }
          if (!by_in) continue;
          // Moving one element moves the mean and the deviation of its whole row.
          const auto factor = weight.values<T>();
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
      },
      grad_out, in);
}

void CpuKernels::power_sum(NativeStream, const Tensor& out, const Tensor& in, double power, bool add) const {
  require(out.numel() == 1, "power_sum", "out must have one element", out);
  require_power("power_sum", power);
  visit_real(
      "power_sum",
      [&](auto type) {
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
      },
      out, in);
}

void CpuKernels::power_root(NativeStream, const Tensor& out, const Tensor& in, double power) const {
  require(out.numel() == in.numel(), "power_root", "operands must have as many elements", out, in);
  require_power("power_root", power);
  visit_real(
      "power_root",
      [&](auto type) {
        using T = typename decltype(type)::type;
        std::ranges::transform(in.values<T>(), out.values<T>().begin(), [power](T sum) { return root_of(sum, power); });
      },
      out, in);
}

void CpuKernels::clip(NativeStream, const Tensor& gradient, const Tensor& total_norm, double max_norm) const {
  require(total_norm.numel() == 1, "clip", "the norm must have one element", total_norm);
  visit_real(
      "clip",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const T coefficient = static_cast<T>(max_norm) / (total_norm.values<T>()[0] + static_cast<T>(1e-6));
        // NaN is not above 1 and passes through: gradients without a norm must not look healthy.
        const T factor = coefficient > T{1} ? T{1} : coefficient;
        for (T& element : gradient.values<T>()) element *= factor;
      },
      gradient, total_norm);
}

}  // namespace shardproof::cpu
