// The backend's tables for the real libraries: CUDA's runtime, cuBLAS, NCCL and CUPTI. Only this folder and kernels/
// include headers of these libraries. The functions make no decisions. They only make up for differences between the
// libraries and the promises of vendor.hpp.
#pragma once

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

const CudaTable& cuda_table();
const CublasTable& cublas_table();
const NcclTable& nccl_table();
/// Loads CUPTI once. Returns nullptr, and sets `why`, if there is no usable CUPTI.
const ActivityTable* activity_table(const char** why);

}  // namespace shardproof::device::cuda
