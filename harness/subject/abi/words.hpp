// Translates between the enumerations of shardproof.h and the harness: element types, roles, kinds and classes. Both
// directions of the boundary use it.
#pragma once

#include <cstdint>
#include <string>

#include "harness/device/device.hpp"
#include "harness/subject/reply.hpp"
#include "harness/subject/shardproof.h"

namespace shardproof::subject::abi {

// To C. Throw std::invalid_argument for values that subjects do not use: work and collectives that the harness makes
// from other calls.
DLDataType to_c(DType dtype);
shardproof_stream_role to_c(StreamRole role);
shardproof_work_kind to_c(WorkKind kind);
shardproof_memory to_c(MemoryClass memory);
shardproof_collective_kind to_c(CollectiveKind kind);
shardproof_reduce_op to_c(ReduceOp op);
shardproof_status to_c(CallStatus status);

// From C, where all values but dtypes are numbers. Throw std::invalid_argument with the value that was found and the
// known values.
DType dtype_from_c(DLDataType dtype);
StreamRole role_from_c(std::uint32_t role);
WorkKind work_from_c(std::uint32_t kind);
MemoryClass memory_from_c(std::uint32_t memory);
CollectiveKind collective_from_c(std::uint32_t kind);
ReduceOp op_from_c(std::uint32_t op);
CallStatus status_from_c(std::uint32_t status);

std::string described(DLDataType dtype);  ///< for messages: `f32`, or the dtype's numbers

}  // namespace shardproof::subject::abi
