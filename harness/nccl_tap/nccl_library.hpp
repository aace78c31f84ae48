// Finds the NCCL that the engine itself has loaded, and never loads one. With a second copy in the process, the loader
// would resolve the engine's NCCL functions to that copy.
#pragma once

#include <string>

#include "harness/nccl_tap/functions.hpp"

namespace shardproof::nccl_tap {

struct NcclLibrary {
  NcclFunctions functions;
  std::string path;
  const void* base = nullptr;  ///< address at which the library is mapped
  int version = 0;
};

/// The NCCL of the process. The first call that finds it decides, and later calls return the same library. nullptr: no
/// NCCL is loaded so far. `seen` is a function of the engine's NCCL; it helps to find a library with an unusual name.
const NcclLibrary* nccl_library(const void* seen = nullptr);

/// The address at which the object that contains `address` is mapped.
const void* base_of(const void* address);

}  // namespace shardproof::nccl_tap
