// What the operands of each kernel must be: the rules and the words in which a breach of them is refused, for every implementation of Kernels.
// A function is named as its kernel; it throws std::invalid_argument, or returns the sizes that the kernel goes by. No element is read here:
// whether ids are in range is for whoever can read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/tensor/elements.hpp"
#include "harness/tensor/kernels.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof::operands {

/// A matrix [count, length].
struct Rows {
  std::size_t count, length;
};

/// Two tensors of as many elements, whatever their dtypes: copy, scale, divide, accumulate.
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

/// Rows that indices below `limit` choose.
struct Indexed {
  Rows rows;
  std::size_t limit;
};
Indexed embedding(const Tensor& out, const Tensor& weight, const Tensor& ids);
Indexed embedding_backward(const Kernels::Gradient& weight, const Tensor& grad_out, const Tensor& ids);
Indexed cross_entropy(const Tensor& out, const Tensor& logits, const Tensor& targets);
Indexed cross_entropy_backward(const Tensor& grad_logits, const Tensor& logits, const Tensor& targets);
/// `what` is an index, `range` that of which there are `limit`.
[[noreturn]] void out_of_range(const char* kernel, const char* what, std::int64_t index, const char* range, std::int64_t limit);

void add_positions(const Tensor& out, const Tensor& positions);
void add_positions_backward(const Kernels::Gradient& positions, const Tensor& grad_out);
Rows layer_norm(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias);
Rows layer_norm_backward(const Kernels::LayerNormGradients& gradients, const Tensor& grad_out, const Tensor& in, const Tensor& weight);

/// `count` sequences of `positions` rows of `features` elements each.
struct Sequences {
  std::size_t count, positions, features;
};
Sequences attention(const Tensor& out, const Kernels::Attention& of);
Sequences attention_backward(const Kernels::AttentionGradients& gradients, const Tensor& grad_out, const Kernels::Attention& of);

void power_sum(const Tensor& out, const Tensor& in, double power);
void power_root(const Tensor& out, const Tensor& in, double power);
void clip(const Tensor& gradient, const Tensor& total_norm);
void sgd(const Tensor& parameter, const Tensor& gradient);
/// adam and adamw
void adam(const char* kernel, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1, const Tensor& moment2,
          const Kernels::Adam& how);

/// Calls `body` with the Type that a kernel computes in, once a function above has let the operands' dtype through: double for f64, float
/// for f32 and low precision.
template <class Body> void visit_real(DType dtype, Body&& body) {
  if (dtype == DType::f64) body(elements::Type<double>{});
  else body(elements::Type<float>{});
}

}  // namespace shardproof::operands
