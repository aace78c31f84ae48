// Waits for the end of a process, which may be a child of this process or any other process.
#pragma once

#include <sys/types.h>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::world {

/// Empty if no process with this id exists. Throws std::system_error for all other errors.
base::FileDescriptor open_process(pid_t process);

/// Returns whether the process has ended. Waits at most `timeout_ms`; a negative timeout waits until the end.
bool has_ended(const base::FileDescriptor& process, int timeout_ms);

}  // namespace shardproof::world
