// What every kernel on the host does first: refuse operands that do not fit, and find their element type. For the files cpu_*.cpp.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/tensor/elements.hpp"
#include "harness/tensor/kernels.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof::cpu {

inline std::string describe(const Tensor& tensor) {
  return tensor.defined() ? fmt::format("{} {}", to_string(tensor.dtype()), to_string(tensor.shape())) : "an undefined tensor";
}

template <class... Tensors> [[noreturn]] void reject(const char* kernel, const char* rule, const Tensors&... operands) {
  std::string text = fmt::format("{}: {}; given", kernel, rule);
  ((text += " " + describe(operands) + ","), ...);
  text.pop_back();
  throw std::invalid_argument(text);
}

template <class... Tensors> void require(bool holds, const char* kernel, const char* rule, const Tensors&... operands) {
  if (!holds) reject(kernel, rule, operands...);
}

/// Calls `body` with the element type of operands that must all be f32 or all f64.
template <class Body, class... Tensors> void visit_real(const char* kernel, Body&& body, const Tensor& first, const Tensors&... others) {
  require(first.defined() && (others.defined() && ...), kernel, "operands must be defined", first, others...);
  require(((first.dtype() == others.dtype()) && ...), kernel, "operands must have one dtype", first, others...);
  if (first.dtype() == DType::f32) return body(elements::Type<float>{});
  if (first.dtype() == DType::f64) return body(elements::Type<double>{});
  reject(kernel, "computes in f32 and f64 only", first, others...);
}

/// Calls `body` with the element types of two tensors of as many elements, whatever their dtypes.
template <class Body> void visit_pair(const char* kernel, const Tensor& out, const Tensor& in, Body&& body) {
  require(out.defined() && in.defined(), kernel, "operands must be defined", out, in);
  require(out.numel() == in.numel(), kernel, "operands must have as many elements", out, in);
  elements::visit(out.dtype(), [&](auto to) { elements::visit(in.dtype(), [&](auto from) { body(to, from); }); });
}

struct Rows {
  std::size_t count, length;
};

/// A matrix [m, n].
inline Rows rows_of(const char* kernel, const Tensor& matrix) {
  require(matrix.shape().size() == 2, kernel, "needs a matrix", matrix);
  return {static_cast<std::size_t>(matrix.shape()[0]), static_cast<std::size_t>(matrix.shape()[1])};
}

/// A matrix [m, n] and a row [n] that goes with it.
inline Rows rows_of(const char* kernel, const Tensor& matrix, const Tensor& row) {
  const bool fit = matrix.shape().size() == 2 && row.shape().size() == 1 && matrix.shape()[1] == row.shape()[0];
  require(fit, kernel, "needs a matrix [m, n] and a row [n]", matrix, row);
  return rows_of(kernel, matrix);
}

/// `count` indices below `limit`, all checked before one is used. `what` is one of them, `range` that of which there are `limit`.
inline std::span<const std::int64_t> indices(const char* kernel, const Tensor& from, std::size_t count, std::size_t limit, const char* what,
                                             const char* range) {
  require(from.defined() && from.dtype() == DType::i64 && static_cast<std::size_t>(from.numel()) == count, kernel,
          "needs one index per row, i64", from);
  const std::span<const std::int64_t> values = from.values<std::int64_t>();
  for (const std::int64_t value : values) {
    if (value < 0 || static_cast<std::size_t>(value) >= limit) {
      throw std::out_of_range(fmt::format("{}: {} {} is out of range; {}: {}", kernel, what, value, range, limit));
    }
  }
  return values;
}

/// Whether a gradient by `operand` can go there, which it also can when it goes nowhere.
inline bool fits(const Kernels::Gradient& gradient, const Tensor& operand) {
  return !gradient.out.defined() || (gradient.out.dtype() == operand.dtype() && gradient.out.numel() == operand.numel());
}

/// The finished gradient goes where it is wanted.
template <class T> void deliver(const Kernels::Gradient& gradient, const std::vector<T>& finished) {
  if (!gradient.out.defined()) return;
  const std::span<T> target = gradient.out.values<T>();
  for (std::size_t i = 0; i < target.size(); ++i) target[i] = gradient.add ? target[i] + finished[i] : finished[i];
}

}  // namespace shardproof::cpu
