// The real libraries behind the backend's tables: CUDA's runtime, cuBLAS, NCCL, CUPTI. Only this folder and kernels/ include headers of
// theirs. None of the functions decides anything; what differs between the libraries and what vendor.hpp promises is made up for here alone.
#pragma once

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::cuda {

const CudaTable& cuda_table();
const CublasTable& cublas_table();
const NcclTable& nccl_table();
/// Loads CUPTI, once. nullptr, and why: there is none here that can be used.
const ActivityTable* activity_table(const char** why);

}  // namespace shardproof::cuda
