// The end of a process that need not be a child of this one.
#pragma once

#include <sys/types.h>

#include "harness/base/file_descriptor.hpp"

namespace shardproof {

/// None: there is no process of this id any more. Throws std::system_error for whatever else is in the way.
FileDescriptor open_process(pid_t process);

/// True once the process has ended; waits for that with a negative timeout.
bool has_ended(const FileDescriptor& process, int timeout_ms);

}  // namespace shardproof
