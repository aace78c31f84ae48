// The table of the kernels that run on a GPU. Only the module that brings the libraries uses this header; all other
// code uses the table.
#pragma once

#include "harness/device/cuda/kernels/table.hpp"

namespace shardproof::device::cuda {

const KernelTable& gpu_kernel_table();

}  // namespace shardproof::device::cuda
