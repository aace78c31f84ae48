#include <algorithm>
#include <cmath>

#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::tensor::cpu {

using operands::visit_real;

namespace {

template <class Term> void reduce(const char* kernel, const Tensor& out, const Tensor& in, Term term) {
  operands::reduce(kernel, out, in);
  const Tensor source = widened(in);
  visit_real(in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T total{0};
    for (const T value : source.values<T>()) total += term(value);
    deliver({out}, std::vector<T>{total});
  });
}

/// A row's largest element, and the sum of exp(element - largest).
template <class T> struct Exponentials {
  explicit Exponentials(std::span<const T> row) : largest(*std::ranges::max_element(row)) {
    for (const T x : row) total += std::exp(x - largest);
  }
  T largest, total{0};
};

}  // namespace

void CpuKernels::sum(NativeStream, const Tensor& out, const Tensor& in) const {
  reduce("sum", out, in, [](auto x) { return x; });
}

void CpuKernels::sum_of_squares(NativeStream, const Tensor& out, const Tensor& in) const {
  reduce("sum_of_squares", out, in, [](auto x) { return x * x; });
}

void CpuKernels::dot_rows(NativeStream, const Tensor& out, const Tensor& in, const Tensor& row) const {
  const operands::Rows shape = operands::dot_rows(out, in, row);
  const Tensor matrix = widened(in), weights = widened(row);
  visit_real(in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto source = matrix.values<T>(), weight = weights.values<T>();
    T total{0};
    for (std::size_t i = 0; i < source.size(); ++i) total += source[i] * weight[i % shape.length];
    deliver({out}, std::vector<T>{total});
  });
}

void CpuKernels::dot(NativeStream, const Gradient& total, const Tensor& a, const Tensor& b) const {
  operands::dot(total, a, b);
  const Tensor first = widened(a), second = widened(b);
  visit_real(total.out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto x = first.values<T>(), y = second.values<T>();
    T sum{0};
    for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
    deliver(total, std::vector<T>{sum});
  });
}

void CpuKernels::cross_entropy(NativeStream, const Tensor& out, const Tensor& logits, const Tensor& targets) const {
  const auto [shape, classes] = operands::cross_entropy(out, logits, targets);
  const auto target = indices("cross_entropy", targets, classes, "target", "classes");
  const Tensor scores = widened(logits);
  visit_real(logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T total{0};
    for (std::size_t i = 0; i < shape.count; ++i) {
      const std::span<const T> row = scores.values<T>().subspan(i * shape.length, shape.length);
      const Exponentials<T> exponentials(row);
      total += std::log(exponentials.total) + exponentials.largest - row[static_cast<std::size_t>(target[i])];
    }
    deliver({out}, std::vector<T>{total / static_cast<T>(shape.count)});
  });
}

void CpuKernels::cross_entropy_backward(NativeStream, const Tensor& grad_logits, const Tensor& logits,
                                        const Tensor& targets) const {
  const auto [shape, classes] = operands::cross_entropy_backward(grad_logits, logits, targets);
  const auto target = indices("cross_entropy_backward", targets, classes, "target", "classes");
  const Tensor scores = widened(logits), result = widened(grad_logits);
  visit_real(grad_logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T rows = static_cast<T>(shape.count);
    for (std::size_t i = 0; i < shape.count; ++i) {
      const std::span<const T> row = scores.values<T>().subspan(i * shape.length, shape.length);
      const std::span<T> slope = result.values<T>().subspan(i * shape.length, shape.length);
      const Exponentials<T> exponentials(row);
      for (std::size_t j = 0; j < shape.length; ++j) {
        const T probability = std::exp(row[j] - exponentials.largest) / exponentials.total;
        slope[j] = (static_cast<std::size_t>(target[i]) == j ? probability - T{1} : probability) / rows;
      }
    }
  });
  round_to(grad_logits, result);
}

}  // namespace shardproof::tensor::cpu
