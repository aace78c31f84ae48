// The words of shardproof.h and those of the harness for the same things: element types, roles, kinds, classes. Both directions of the
// boundary translate here.
#pragma once

#include <cstdint>
#include <string>

#include "harness/device/device.hpp"
#include "harness/subject/reply.hpp"
#include "harness/subject/shardproof.h"

namespace shardproof::abi {

// To C. Throw std::invalid_argument for what subjects do not say: work and collectives that the harness makes of others.
DLDataType to_c(DType dtype);
shardproof_stream_role to_c(StreamRole role);
shardproof_work_kind to_c(WorkKind kind);
shardproof_memory to_c(MemoryClass memory);
shardproof_collective_kind to_c(CollectiveKind kind);
shardproof_reduce_op to_c(ReduceOp op);
shardproof_status to_c(CallStatus status);

// From C, where all words but dtypes are numbers. Throw std::invalid_argument that says what was found and what there is.
DType dtype_from_c(DLDataType dtype);
StreamRole role_from_c(std::uint32_t role);
WorkKind work_from_c(std::uint32_t kind);
MemoryClass memory_from_c(std::uint32_t memory);
CollectiveKind collective_from_c(std::uint32_t kind);
ReduceOp op_from_c(std::uint32_t op);
CallStatus status_from_c(std::uint32_t status);

std::string described(DLDataType dtype);  ///< for messages: `f32`, or what was found

}  // namespace shardproof::abi
