// Helpers that the host kernels share, beyond the rules for operands. They read and check indices, widen low precision,
// round results back, and deliver gradients. Only the files cpu_*.cpp use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/tensor/kernels.hpp"
#include "harness/tensor/operands.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof::tensor::cpu {

using operands::Rows;
using operands::visit_real;

/// Returns the indices, after checking that all are below `limit`. For the error text, `what` names an index and
/// `range` names the range that has `limit` elements.
inline std::span<const std::int64_t> indices(const char* kernel, const Tensor& from, std::size_t limit,
                                             const char* what, const char* range) {
  const std::span<const std::int64_t> values = from.values<std::int64_t>();
  for (const std::int64_t value : values) {
    if (value < 0 || static_cast<std::size_t>(value) >= limit) {
      operands::out_of_range(kernel, what, value, range, static_cast<std::int64_t>(limit));
    }
  }
  return values;
}

/// The operand in the type that kernels compute in: a copy in f32 for low precision, otherwise the operand itself. An
/// undefined operand stays undefined.
inline Tensor widened(const Tensor& operand) {
  if (!operand.defined() || (operand.dtype() != DType::bf16 && operand.dtype() != DType::f16)) return operand;
  const Tensor wide = Tensor::host(DType::f32, operand.shape());
  cpu_kernels().copy(nullptr, wide, operand);
  return wide;
}

/// Copies a result that was computed in `widened(out)` to `out`: the one rounding.
inline void round_to(const Tensor& out, const Tensor& wide) {
  if (out.dtype() != wide.dtype()) cpu_kernels().copy(nullptr, out, wide);
}

/// Writes the finished gradient to its target, or adds it to the target.
template <class T> void deliver(const Kernels::Gradient& gradient, const std::vector<T>& finished) {
  if (!gradient.out.defined()) return;
  const Tensor result = widened(gradient.out);
  const std::span<T> target = result.values<T>();
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = gradient.add ? target[i] + finished[i] : finished[i];
  round_to(gradient.out, result);
}

}  // namespace shardproof::tensor::cpu
