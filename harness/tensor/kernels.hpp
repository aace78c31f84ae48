// The few computations that models, optimizers and collectives' packing need. A device brings an implementation; engines call them inside
// Work on a stream and never touch elements themselves. All operands are contiguous; `out` may not overlap an input unless said.
#pragma once

#include <cstdint>

#include "harness/tensor/tensor.hpp"

namespace shardproof {

/// The backend's stream (cudaStream_t); nullptr where work is done at once on the host.
using NativeStream = void*;

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual void copy(NativeStream, const Tensor& out, const Tensor& in) const = 0;  ///< same numel; converts dtype, round to nearest even
  virtual void fill(NativeStream, const Tensor& out, double value) const = 0;
  virtual void scale(NativeStream, const Tensor& out, const Tensor& in, double factor) const = 0;  ///< out = in * factor; may alias
  virtual void divide(NativeStream, const Tensor& out, const Tensor& in, double divisor) const = 0;  ///< one division each; may alias
  virtual void accumulate(NativeStream, const Tensor& out, const Tensor& in) const = 0;             ///< out += in

  /// out [m, n] = op(a) op(b) (+ out when `add`), op transposes where asked. Sums run over the inner index in ascending order, unfused.
  struct Matmul {
    bool transpose_a = false;
    bool transpose_b = false;
    bool add = false;
  };
  virtual void matmul(NativeStream, const Tensor& out, const Tensor& a, const Tensor& b, Matmul how) const = 0;
  virtual void add_row(NativeStream, const Tensor& out, const Tensor& row) const = 0;           ///< out [m, n] += row [n]
  /// out [n] (+)= sum over rows of in [m, n], ascending
  virtual void sum_rows(NativeStream, const Tensor& out, const Tensor& in, bool add) const = 0;

  virtual void relu(NativeStream, const Tensor& out, const Tensor& in) const = 0;
  virtual void relu_backward(NativeStream, const Tensor& grad_in, const Tensor& grad_out, const Tensor& out) const = 0;

  virtual void sum(NativeStream, const Tensor& out, const Tensor& in) const = 0;             ///< out: one element
  virtual void sum_of_squares(NativeStream, const Tensor& out, const Tensor& in) const = 0;  ///< out: one element
  /// out: one element, the sum of in [m, n] * row [n]
  virtual void dot_rows(NativeStream, const Tensor& out, const Tensor& in, const Tensor& row) const = 0;

  virtual void sgd(NativeStream, const Tensor& parameter, const Tensor& gradient, double rate) const = 0;
  struct Adam {
    double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
    std::int64_t step = 1;
  };
  /// AdamW (decoupled decay), moments updated in place; the arithmetic of PyTorch's single-tensor implementation, operation by operation.
  virtual void adamw(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1, const Tensor& moment2,
                     const Adam& how) const = 0;

  /// Occupies the stream for this long where time is real; nothing on the simulated device, where cost says it.
  virtual void spin(NativeStream, std::int64_t nanoseconds) const = 0;
};

/// On the host, in plain ordered loops: the same bits on every x86-64 machine.
const Kernels& cpu_kernels();

}  // namespace shardproof
