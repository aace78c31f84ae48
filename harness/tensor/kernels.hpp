// The interface of the kernels: the few computations that models, optimizers and the packing of collectives need.
// kernel_list.inc has the methods. Each device brings an implementation. Engines call it inside Work on a stream, and
// never touch elements themselves. All operands are contiguous. `out` may not overlap an input unless a comment in the
// list allows it.
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

  struct Matmul {
    bool transpose_a = false;
    bool transpose_b = false;
    bool add = false;
  };

  /// The target of the gradient by one operand. If `out` is undefined, there is no target. With `add`, the finished sum
  /// is added to the old value at once.
  struct Gradient {
    Tensor out;
    bool add = false;
  };

  /// `weight` of the kernel may be undefined if the caller wants no gradient by `in`.
  struct LayerNormGradients {
    Gradient in, weight, bias;
  };

  struct Attention {
    Tensor query, key, value;  ///< [n, d] each; n is a multiple of `positions`
    std::int64_t positions = 1;
  };
  struct AttentionGradients {
    Gradient query, key, value;
  };

  struct Adam {
    double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
    std::int64_t step = 1;
  };

#define KERNEL(name, parameters, arguments) virtual void name parameters const = 0;
#include "harness/tensor/kernel_list.inc"
};

/// The kernels on the host, in plain ordered loops: the same bits on every x86-64 machine.
const Kernels& cpu_kernels();

}  // namespace shardproof
