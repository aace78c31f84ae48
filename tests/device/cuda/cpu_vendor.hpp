// All tables of the CUDA backend, filled for the CPU. With them, all code above the vendors' libraries runs on a
// machine without a GPU, in processes or in threads, and in virtual time.
#pragma once

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda::cpu {

const VendorTables& vendor();

}  // namespace shardproof::device::cuda::cpu
