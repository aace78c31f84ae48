#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::tensor::cpu {

void CpuKernels::matmul(NativeStream, const Tensor& out, const Tensor& a, const Tensor& b, Matmul how) const {
  const auto [shape, left, right, inner] = operands::matmul(out, a, b, how);
  const Tensor first = widened(a), second = widened(b), result = widened(out);
  operands::visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* const x = first.values<T>().data();
    const T* const y = second.values<T>().data();
    T* const z = result.values<T>().data();
    const std::size_t x_row = how.transpose_a ? 1 : left.length, x_step = how.transpose_a ? left.length : 1;
    const std::size_t y_step = how.transpose_b ? 1 : right.length;
    // Several columns at once, so that a processor adds several sums in parallel. The order of each sum stays the same.
    std::array<T, 256> totals;
    const auto compute = [&](auto y_column, std::size_t most_columns) {
      for (std::size_t i = 0; i < shape.count; ++i) {
        for (std::size_t j = 0; j < shape.length; j += most_columns) {
          const std::size_t columns = std::min(most_columns, shape.length - j);
          std::fill_n(totals.begin(), columns, T{0});
          for (std::size_t k = 0; k < inner; ++k) {
            const T factor = x[i * x_row + k * x_step];
            const T* const row = y + k * y_step + j * y_column;
            for (std::size_t c = 0; c < columns; ++c) totals[c] += factor * row[c * y_column];
          }
          T* const elements = z + i * shape.length + j;
          for (std::size_t c = 0; c < columns; ++c) elements[c] = how.add ? elements[c] + totals[c] : totals[c];
        }
      }
    };
    if (how.transpose_b) compute(right.length, 8);
    else compute(std::integral_constant<std::size_t, 1>{}, totals.size());
  });
  round_to(out, result);
}

void CpuKernels::add_row(NativeStream, const Tensor& out, const Tensor& row) const {
  const operands::Rows shape = operands::add_row(out, row);
  const Tensor added = widened(row), result = widened(out);
  operands::visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto target = result.values<T>(), addend = added.values<T>();
    for (std::size_t i = 0; i < target.size(); ++i) target[i] += addend[i % shape.length];
  });
  round_to(out, result);
}

void CpuKernels::sum_rows(NativeStream, const Tensor& out, const Tensor& in, bool add) const {
  const operands::Rows shape = operands::sum_rows(out, in);
  const Tensor matrix = widened(in), result = widened(out);
  operands::visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto target = result.values<T>(), source = matrix.values<T>();
    for (std::size_t j = 0; j < shape.length; ++j) {
      T total{0};
      for (std::size_t i = 0; i < shape.count; ++i) total += source[i * shape.length + j];
      target[j] = add ? target[j] + total : total;
    }
  });
  round_to(out, result);
}

}  // namespace shardproof::tensor::cpu
