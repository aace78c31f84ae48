// The interface of the kernels: the few computations that models, optimizers and the packing of collectives need. Each
// device brings an implementation. Engines call it inside Work on a stream, and never touch elements themselves. All
// operands are contiguous. `out` may not overlap an input unless a comment allows it.
//
// Dtypes:
// - copy, fill, scale, divide and accumulate take every dtype, and pairs of them.
// - Norms (power_sum, power_root, clip) and optimizers take f32 and f64, with operands of equal dtype.
// - All others take f32, f64, bf16 and f16, with operands of equal dtype.
//
// Low precision is only for storage. A kernel widens elements to f32. It computes everything that its comment says in
// f32 and in that order. Then it rounds the result to its dtype once, to nearest even. It adds a sum to an old value in
// f32, before that one rounding. The single element of a loss (sum, sum_of_squares, dot_rows, cross_entropy) may be f32
// if its operands are of low precision: then it is not rounded.
#pragma once

#include <cstdint>

#include "harness/tensor/tensor.hpp"

namespace shardproof {

/// The backend's stream (cudaStream_t); nullptr if the host does the work at once.
using NativeStream = void*;

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual void copy(NativeStream, const Tensor& out,
                    const Tensor& in) const = 0;  ///< same numel; converts dtype, round to nearest even
  virtual void fill(NativeStream, const Tensor& out, double value) const = 0;
  virtual void scale(NativeStream, const Tensor& out, const Tensor& in,
                     double factor) const = 0;  ///< out = in * factor; may alias
  virtual void divide(NativeStream, const Tensor& out, const Tensor& in,
                      double divisor) const = 0;  ///< one division each; may alias
  virtual void accumulate(NativeStream, const Tensor& out, const Tensor& in) const = 0;  ///< out += in

  /// out [m, n] = op(a) op(b) (+ out when `add`), where op transposes if asked. Sums run over the inner index in
  /// ascending order, unfused.
  struct Matmul {
    bool transpose_a = false;
    bool transpose_b = false;
    bool add = false;
  };
  virtual void matmul(NativeStream, const Tensor& out, const Tensor& a, const Tensor& b, Matmul how) const = 0;
  virtual void add_row(NativeStream, const Tensor& out, const Tensor& row) const = 0;  ///< out [m, n] += row [n]
  /// out [n] (+)= sum over rows of in [m, n], ascending
  virtual void sum_rows(NativeStream, const Tensor& out, const Tensor& in, bool add) const = 0;

  /// The target of the gradient by one operand. If `out` is undefined, there is no target. With `add`, the finished sum
  /// is added to the old value at once.
  struct Gradient {
    Tensor out;
    bool add = false;
  };

  virtual void relu(NativeStream, const Tensor& out, const Tensor& in) const = 0;
  virtual void relu_backward(NativeStream, const Tensor& grad_in, const Tensor& grad_out, const Tensor& out) const = 0;

  /// out = in * factor, which has one element; out may be `in`
  virtual void scale_by(NativeStream, const Tensor& out, const Tensor& in, const Tensor& factor) const = 0;
  /// One element, the sum of a * b: the gradient by the factor of `scale_by`, of the output's gradient and the input.
  virtual void dot(NativeStream, const Gradient& total, const Tensor& a, const Tensor& b) const = 0;

  /// out [n, f]: row i is row ids[i] of weight [v, f]; `ids` are n elements, i64. Throws std::out_of_range naming an id
  /// that is not below v.
  virtual void embedding(NativeStream, const Tensor& out, const Tensor& weight, const Tensor& ids) const = 0;
  /// weight [v, f]: row i of grad_out [n, f] is added to row ids[i], ascending.
  virtual void embedding_backward(NativeStream, const Gradient& weight, const Tensor& grad_out,
                                  const Tensor& ids) const = 0;
  /// Row i of out [n, f] += row i mod s of positions [s, f]; n is a multiple of s.
  virtual void add_positions(NativeStream, const Tensor& out, const Tensor& positions) const = 0;
  virtual void add_positions_backward(NativeStream, const Gradient& positions, const Tensor& grad_out) const = 0;

  /// Each row of in [n, f]: (x - mean) / sqrt(variance + 1e-5) * weight [f] + bias [f]. The variance is that of the row
  /// itself (divided by f).
  virtual void layer_norm(NativeStream, const Tensor& out, const Tensor& in, const Tensor& weight,
                          const Tensor& bias) const = 0;
  /// `weight` may be undefined if the caller wants no gradient by `in`.
  struct LayerNormGradients {
    Gradient in, weight, bias;
  };
  virtual void layer_norm_backward(NativeStream, const LayerNormGradients& gradients, const Tensor& grad_out,
                                   const Tensor& in, const Tensor& weight) const = 0;

  /// out [n, d] = softmax(mask(q kᵀ / sqrt(d))) v within each sequence of `positions` rows. A row attends to itself and
  /// to the rows before it.
  struct Attention {
    Tensor query, key, value;  ///< [n, d] each; n is a multiple of `positions`
    std::int64_t positions = 1;
  };
  virtual void attention(NativeStream, const Tensor& out, const Attention& of) const = 0;
  struct AttentionGradients {
    Gradient query, key, value;
  };
  virtual void attention_backward(NativeStream, const AttentionGradients& gradients, const Tensor& grad_out,
                                  const Attention& of) const = 0;

  virtual void sum(NativeStream, const Tensor& out, const Tensor& in) const = 0;  ///< out: one element
  virtual void sum_of_squares(NativeStream, const Tensor& out, const Tensor& in) const = 0;  ///< out: one element
  /// out: one element, the sum of in [m, n] * row [n]
  virtual void dot_rows(NativeStream, const Tensor& out, const Tensor& in, const Tensor& row) const = 0;

  /// out: one element, the mean over rows of log(sum(exp(row))) - row[target]; `targets` are n elements, i64, for
  /// logits [n, c]. Throws std::out_of_range naming a target that is not below c.
  virtual void cross_entropy(NativeStream, const Tensor& out, const Tensor& logits, const Tensor& targets) const = 0;
  virtual void cross_entropy_backward(NativeStream, const Tensor& grad_logits, const Tensor& logits,
                                      const Tensor& targets) const = 0;

  /// out: one element, (+)= the sum of |x|^power. For an infinite power it is the largest |x|; with `add`, the old
  /// value stays if it is larger.
  virtual void power_sum(NativeStream, const Tensor& out, const Tensor& in, double power, bool add) const = 0;
  /// From a sum of powers to the norm: out = in^(1/power). For an infinite power, out = in. May alias.
  virtual void power_root(NativeStream, const Tensor& out, const Tensor& in, double power) const = 0;
  /// gradient *= min(1, max_norm / (total_norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; total_norm has one element.
  virtual void clip(NativeStream, const Tensor& gradient, const Tensor& total_norm, double max_norm) const = 0;

  virtual void sgd(NativeStream, const Tensor& parameter, const Tensor& gradient, double rate) const = 0;
  struct Adam {
    double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
    std::int64_t step = 1;
  };
  /// Adam and AdamW, which update the moments in place. The arithmetic is that of PyTorch's single-tensor
  /// implementations, operation by operation. Adam adds weight_decay * parameter to the gradient. AdamW takes rate *
  /// weight_decay * parameter off the parameter.
  virtual void adam(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
                    const Tensor& moment2, const Adam& how) const = 0;
  virtual void adamw(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
                     const Tensor& moment2, const Adam& how) const = 0;
};

/// The kernels on the host, in plain ordered loops: the same bits on every x86-64 machine.
const Kernels& cpu_kernels();

}  // namespace shardproof
