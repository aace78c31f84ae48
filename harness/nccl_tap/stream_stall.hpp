// Stalls a stream of the device. It enqueues a host function that sleeps, and work that is enqueued later waits for it.
// Nothing on the host's side of a call can do that. The tap is not linked to CUDA, so it looks up the enqueueing
// function by name in the CUDA driver of the process.
#pragma once

#include <chrono>

#include "harness/nccl_tap/functions.hpp"

namespace shardproof::nccl_tap {

/// Returns false when the function could not be enqueued, and reports that once on standard error. The stream belongs
/// to the context that is current in this thread. nullptr is that context's default stream.
bool stall_stream(cudaStream_t stream, std::chrono::nanoseconds duration);

}  // namespace shardproof::nccl_tap
