// Converts a number that an engine handed to NCCL in memory to a double.
#pragma once

#include "harness/protocol/nccl_calls.hpp"

namespace shardproof::nccl_tap {

/// Reads one element in host memory. Returns NaN for an unknown type and for 8-bit floating-point types.
double scalar_value(const void* element, protocol::ElementType type);

}  // namespace shardproof::nccl_tap
