// What kernels on the host have in common beyond the rules for operands: indices are read and checked, gradients go where they are wanted. For
// the files cpu_*.cpp.
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

/// The finished gradient goes where it is wanted.
template <class T> void deliver(const Kernels::Gradient& gradient, const std::vector<T>& finished) {
  if (!gradient.out.defined()) return;
  const std::span<T> target = gradient.out.values<T>();
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = gradient.add ? target[i] + finished[i] : finished[i];
}

}  // namespace shardproof::cpu
