// The kernels as a GPU runs them. For the module that brings the libraries; everybody else knows the table only.
#pragma once

#include "harness/device/cuda/kernels/table.hpp"

namespace shardproof::cuda {

const KernelTable& gpu_kernel_table();

}  // namespace shardproof::cuda
