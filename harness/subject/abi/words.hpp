// The words of shardproof.h and those of the harness for the same things: element types, roles, kinds, classes. Both directions of the
// boundary translate here.
#pragma once

#include <string>

#include "harness/device/device.hpp"
#include "harness/subject/shardproof.h"

namespace shardproof::abi {

DLDataType to_c(DType dtype);
shardproof_stream_role to_c(StreamRole role);
shardproof_work_kind to_c(WorkKind kind);  ///< std::invalid_argument for what is no subject's work
shardproof_memory to_c(MemoryClass memory);
shardproof_collective_kind to_c(CollectiveKind kind);  ///< std::invalid_argument for what is not run on a stream
shardproof_reduce_op to_c(ReduceOp op);

// Throw std::invalid_argument that says what was found and what there is.
DType from_c(DLDataType dtype);
StreamRole from_c(shardproof_stream_role role);
WorkKind from_c(shardproof_work_kind kind);
MemoryClass from_c(shardproof_memory memory);
CollectiveKind from_c(shardproof_collective_kind kind);
ReduceOp from_c(shardproof_reduce_op op);

std::string described(DLDataType dtype);  ///< for messages: `f32`, or what was found

}  // namespace shardproof::abi
