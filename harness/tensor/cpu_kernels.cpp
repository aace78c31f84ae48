#include "harness/tensor/cpu_kernels.hpp"

namespace shardproof::tensor {

const Kernels& cpu_kernels() {
  static const cpu::CpuKernels kernels;
  return kernels;
}

}  // namespace shardproof::tensor
