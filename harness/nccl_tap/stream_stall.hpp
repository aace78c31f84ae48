// Holds up a stream of the device, as nothing on the host's side of a call can: a host function that sleeps stands on it, and what is
// enqueued behind waits. The function that enqueues it is looked for in the CUDA driver that the process has, by name: the tap is linked to
// no CUDA.
#pragma once

#include <chrono>

#include "harness/nccl_tap/functions.hpp"

namespace shardproof::nccl_tap {

/// False: it could not be enqueued, which is said once on standard error. The stream is one of the context that is current in this thread,
/// or nullptr, its default stream.
bool stall_stream(cudaStream_t stream, std::chrono::nanoseconds duration);

}  // namespace shardproof::nccl_tap
