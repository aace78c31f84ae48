// A number that an engine handed to NCCL in memory, as one of ours.
#pragma once

#include "harness/protocol/nccl_calls.hpp"

namespace shardproof::nccl_tap {

/// Reads one element in host memory. Not a number where the type is not known, or of 8 bits and floating.
double scalar_value(const void* element, ElementType type);

}  // namespace shardproof::nccl_tap
