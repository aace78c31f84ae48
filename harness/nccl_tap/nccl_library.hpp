// Finds the NCCL that the engine itself has, and never brings in one: with another copy of it in the process, the loader would satisfy the
// engine's own by that.
#pragma once

#include <string>

#include "harness/nccl_tap/functions.hpp"

namespace shardproof::nccl_tap {

struct NcclLibrary {
  NcclFunctions functions;
  std::string path;
  const void* base = nullptr;  ///< where it is mapped
  int version = 0;
};

/// The library of the process, found at the first call that finds one and the same from then on; nullptr: there is none so far. `seen` is a
/// function of the NCCL that the engine is known to have, for one that goes by an unusual name.
const NcclLibrary* nccl_library(const void* seen = nullptr);

/// Where the object that an address belongs to is mapped.
const void* base_of(const void* address);

}  // namespace shardproof::nccl_tap
