// Replaces the CUPTI table in a build without CUPTI's header: it only says why there is no table.
#include "harness/device/cuda/module/tables.hpp"

namespace shardproof::device::cuda {

const ActivityTable* activity_table(const char** why) {
  *why = "the backend was built where CMake found no cupti.h; it is part of the CUDA Toolkit";
  return nullptr;
}

}  // namespace shardproof::device::cuda
