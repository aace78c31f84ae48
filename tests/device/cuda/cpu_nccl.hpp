// What the backend uses of NCCL, on the CPU: communicators that do not block, whose collectives run on the streams of cpu_runtime.hpp over the
// harness' own fabric, in processes or threads of one machine. As with the real one, ranks that ask for different things hang until they are
// aborted, and who is aborted leaves its peers with an error.
#pragma once

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::cuda::cpu {

const NcclTable& nccl();

}  // namespace shardproof::cuda::cpu
