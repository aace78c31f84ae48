// The rules for the operands of each kernel, and the texts of their errors. Every implementation of Kernels uses them.
// A function has the name of its kernel. It throws std::invalid_argument, or returns the sizes that the kernel needs.
// It reads no element: the implementation, which can read ids, checks their range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/tensor/elements.hpp"
#include "harness/tensor/kernels.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof::tensor::operands {

/// A matrix [count, length].
struct Rows {
  std::size_t count, length;
};

/// Two tensors with the same number of elements, of any dtypes: copy, scale, divide, accumulate.
void pair(const char* kernel, const Tensor& out, const Tensor& in);
void fill(const Tensor& out);
void relu(const Tensor& out, const Tensor& in);
void relu_backward(const Tensor& grad_in, const Tensor& grad_out, const Tensor& out);
void scale_by(const Tensor& out, const Tensor& in, const Tensor& factor);

/// The three matrices as they are stored, and the length of the sums.
struct Product {
  Rows out, a, b;
  std::size_t inner;
};
Product matmul(const Tensor& out, const Tensor& a, const Tensor& b, Kernels::Matmul how);
Rows add_row(const Tensor& out, const Tensor& row);
Rows sum_rows(const Tensor& out, const Tensor& in);

/// One element from a tensor: sum, sum_of_squares.
void reduce(const char* kernel, const Tensor& out, const Tensor& in);
Rows dot_rows(const Tensor& out, const Tensor& in, const Tensor& row);
void dot(const Kernels::Gradient& total, const Tensor& a, const Tensor& b);

/// Rows that are selected by indices below `limit`.
struct Indexed {
  Rows rows;
  std::size_t limit;
};
Indexed embedding(const Tensor& out, const Tensor& weight, const Tensor& ids);
Indexed embedding_backward(const Kernels::Gradient& weight, const Tensor& grad_out, const Tensor& ids);
Indexed cross_entropy(const Tensor& out, const Tensor& logits, const Tensor& targets);
Indexed cross_entropy_backward(const Tensor& grad_logits, const Tensor& logits, const Tensor& targets);
/// Throws std::out_of_range. `what` names the index, `range` names the range that has `limit` elements.
[[noreturn]] void out_of_range(const char* kernel, const char* what, std::int64_t index, const char* range,
                               std::int64_t limit);

void add_positions(const Tensor& out, const Tensor& positions);
void add_positions_backward(const Kernels::Gradient& positions, const Tensor& grad_out);
Rows layer_norm(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias);
Rows layer_norm_backward(const Kernels::LayerNormGradients& gradients, const Tensor& grad_out, const Tensor& in,
                         const Tensor& weight);

/// `count` sequences of `positions` rows of `features` elements each.
struct Sequences {
  std::size_t count, positions, features;
};
Sequences attention(const Tensor& out, const Kernels::Attention& of);
Sequences attention_backward(const Kernels::AttentionGradients& gradients, const Tensor& grad_out,
                             const Kernels::Attention& of);

void power_sum(const Tensor& out, const Tensor& in, double power);
void power_root(const Tensor& out, const Tensor& in, double power);
void clip(const Tensor& gradient, const Tensor& total_norm);
void sgd(const Tensor& parameter, const Tensor& gradient);
/// adam and adamw
void adam(const char* kernel, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
          const Tensor& moment2, const Kernels::Adam& how);

/// Calls `body` with the Type that a kernel computes in: double for f64, float for f32 and low precision. A function
/// above must have accepted the operands' dtype.
template <class Body> void visit_real(DType dtype, Body&& body) {
  if (dtype == DType::f64) body(elements::Type<double>{});
  else body(elements::Type<float>{});
}

}  // namespace shardproof::tensor::operands
