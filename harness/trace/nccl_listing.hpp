// Prints a record of NCCL calls as lines of text.
#pragma once

#include <string>

#include "harness/protocol/nccl_record.hpp"

namespace shardproof::trace {

/// `rank 0`, or `process 4711` if its rank is unknown.
std::string name_of(const protocol::TapProcess& process);

/// The process and its NCCL, its communicators, and its calls; ends with a line break.
std::string list(const protocol::TapRecord& record);

}  // namespace shardproof::trace
