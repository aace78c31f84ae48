// The kernels on the host. Each file cpu_*.cpp holds those of one subject.
#pragma once

#include "harness/tensor/kernels.hpp"

namespace shardproof::cpu {

class CpuKernels final : public Kernels {
 public:
  void copy(NativeStream, const Tensor& out, const Tensor& in) const override;
  void fill(NativeStream, const Tensor& out, double value) const override;
  void scale(NativeStream, const Tensor& out, const Tensor& in, double factor) const override;
  void divide(NativeStream, const Tensor& out, const Tensor& in, double divisor) const override;
  void accumulate(NativeStream, const Tensor& out, const Tensor& in) const override;
  void matmul(NativeStream, const Tensor& out, const Tensor& a, const Tensor& b, Matmul how) const override;
  void add_row(NativeStream, const Tensor& out, const Tensor& row) const override;
  void sum_rows(NativeStream, const Tensor& out, const Tensor& in, bool add) const override;
  void relu(NativeStream, const Tensor& out, const Tensor& in) const override;
  void relu_backward(NativeStream, const Tensor& grad_in, const Tensor& grad_out, const Tensor& out) const override;
  void scale_by(NativeStream, const Tensor& out, const Tensor& in, const Tensor& factor) const override;
  void dot(NativeStream, const Gradient& total, const Tensor& a, const Tensor& b) const override;
  void embedding(NativeStream, const Tensor& out, const Tensor& weight, const Tensor& ids) const override;
  void embedding_backward(NativeStream, const Gradient& weight, const Tensor& grad_out,
                          const Tensor& ids) const override;
  void add_positions(NativeStream, const Tensor& out, const Tensor& positions) const override;
  void add_positions_backward(NativeStream, const Gradient& positions, const Tensor& grad_out) const override;
  void layer_norm(NativeStream, const Tensor& out, const Tensor& in, const Tensor& weight,
                  const Tensor& bias) const override;
  void layer_norm_backward(NativeStream, const LayerNormGradients& gradients, const Tensor& grad_out, const Tensor& in,
                           const Tensor& weight) const override;
  void attention(NativeStream, const Tensor& out, const Attention& of) const override;
  void attention_backward(NativeStream, const AttentionGradients& gradients, const Tensor& grad_out,
                          const Attention& of) const override;
  void sum(NativeStream, const Tensor& out, const Tensor& in) const override;
  void sum_of_squares(NativeStream, const Tensor& out, const Tensor& in) const override;
  void dot_rows(NativeStream, const Tensor& out, const Tensor& in, const Tensor& row) const override;
  void cross_entropy(NativeStream, const Tensor& out, const Tensor& logits, const Tensor& targets) const override;
  void cross_entropy_backward(NativeStream, const Tensor& grad_logits, const Tensor& logits,
                              const Tensor& targets) const override;
  void power_sum(NativeStream, const Tensor& out, const Tensor& in, double power, bool add) const override;
  void power_root(NativeStream, const Tensor& out, const Tensor& in, double power) const override;
  void clip(NativeStream, const Tensor& gradient, const Tensor& total_norm, double max_norm) const override;
  void sgd(NativeStream, const Tensor& parameter, const Tensor& gradient, double rate) const override;
  void adam(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1, const Tensor& moment2,
            const Adam& how) const override;
  void adamw(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
             const Tensor& moment2, const Adam& how) const override;
};

}  // namespace shardproof::cpu
