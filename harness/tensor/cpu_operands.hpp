// What kernels on the host have in common beyond the rules for operands: indices are read and checked, low precision is widened, results
// are rounded to it, gradients go where they are wanted. For the files cpu_*.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/tensor/kernels.hpp"
#include "harness/tensor/operands.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof::cpu {

using operands::Rows;
using operands::visit_real;

/// Indices below `limit`, all checked before one is used. `what` is one of them, `range` that of which there are `limit`.
inline std::span<const std::int64_t> indices(const char* kernel, const Tensor& from, std::size_t limit, const char* what,
                                             const char* range) {
  const std::span<const std::int64_t> values = from.values<std::int64_t>();
  for (const std::int64_t value : values) {
    if (value < 0 || static_cast<std::size_t>(value) >= limit) {
      operands::out_of_range(kernel, what, value, range, static_cast<std::int64_t>(limit));
    }
  }
  return values;
}

/// An operand as it is computed with: itself, or of one of low precision a copy in f32. Undefined, if that is what it is.
inline Tensor widened(const Tensor& operand) {
  if (!operand.defined() || (operand.dtype() != DType::bf16 && operand.dtype() != DType::f16)) return operand;
  const Tensor wide = Tensor::host(DType::f32, operand.shape());
  cpu_kernels().copy(nullptr, wide, operand);
  return wide;
}

/// What was computed in `widened(out)` goes to `out`: the one rounding.
inline void round_to(const Tensor& out, const Tensor& wide) {
  if (out.dtype() != wide.dtype()) cpu_kernels().copy(nullptr, out, wide);
}

/// The finished gradient goes where it is wanted.
template <class T> void deliver(const Kernels::Gradient& gradient, const std::vector<T>& finished) {
  if (!gradient.out.defined()) return;
  const Tensor result = widened(gradient.out);
  const std::span<T> target = result.values<T>();
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = gradient.add ? target[i] + finished[i] : finished[i];
  round_to(gradient.out, result);
}

}  // namespace shardproof::cpu
