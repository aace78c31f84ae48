// The kernels on the host. Each file cpu_*.cpp holds those of one subject.
#pragma once

#include "harness/tensor/kernels.hpp"

namespace shardproof::tensor::cpu {

class CpuKernels final : public Kernels {
 public:
#define KERNEL(name, parameters, arguments) void name parameters const override;
#include "harness/tensor/kernel_list.inc"
};

}  // namespace shardproof::tensor::cpu
