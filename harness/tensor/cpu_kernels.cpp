#include "harness/tensor/cpu_kernels.hpp"

namespace shardproof {

const Kernels& cpu_kernels() {
  static const tensor::cpu::CpuKernels kernels;
  return kernels;
}

}  // namespace shardproof
