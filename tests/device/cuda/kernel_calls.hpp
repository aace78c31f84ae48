// Calls of every method of Kernels with random operands. Tests make them on two implementations and compare the
// results.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/tensor/kernels.hpp"

namespace shardproof::device::cuda {

using Operands = std::vector<Tensor>;

/// Reads some of its operands and writes others.
struct KernelCall {
  std::string method, detail;
  Operands operands;  ///< in host memory, or undefined
  std::function<void(const Kernels&, NativeStream, const Operands&)> make;
  bool converts = false;  ///< computes nothing: NaNs keep their bits too
};

/// Elements of every bit pattern: NaN, infinities, numbers below the smallest normal one, the ends of integers' ranges.
Tensor any_bits(DType dtype, const Shape& shape, unsigned seed);

/// copy, fill, scale, divide and accumulate, of every pair of dtypes.
std::vector<KernelCall> element_calls(unsigned seed);
/// All other methods in every dtype that they support:
///
/// * several shapes, including empty ones;
/// * with and without adding, and with omitted gradients;
/// * ordinary and extreme numbers;
/// * losses of low precision, also in f32.
std::vector<KernelCall> float_calls(unsigned seed);

}  // namespace shardproof::device::cuda
