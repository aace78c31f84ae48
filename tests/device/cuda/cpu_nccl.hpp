// The part of NCCL that the backend uses, on the CPU. Its communicators do not block. Their collectives run on the
// streams of cpu_runtime.hpp over the harness's own fabric, in processes or threads of one machine. As with the real
// NCCL, ranks with different requests hang until they are aborted. The peers of an aborted rank get an error.
#pragma once

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda::cpu {

const NcclTable& nccl();

}  // namespace shardproof::device::cuda::cpu
