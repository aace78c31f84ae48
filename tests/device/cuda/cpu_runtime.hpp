// The part of CUDA that the backend uses, on the CPU. Every stream is a thread that runs its work in order, events
// order streams, and memory is allocated and freed in stream order. Work is really asynchronous. Its times are virtual,
// by the rules of the simulated device (docs/simulated-time.md). So they do not depend on the scheduling of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "harness/device/cuda/vendor.hpp"
#include "harness/protocol/trace.hpp"  // Nanoseconds

namespace shardproof::device::cuda::cpu {

// Status codes, with CUDA's own numbers.
inline constexpr Status invalid_value = 1, out_of_memory = 2, no_device = 100, not_ready = 600;
// Status codes, with CUPTI's own numbers.
inline constexpr Status not_started = 15, queue_empty = 18;

/// Work that its stream's thread runs. `end` is the virtual time at which all earlier work has ended. The task advances
/// it.
using Task = std::function<void(Nanoseconds& end)>;

/// Puts a task on a stream. The task gets the host's current clock as `issued`, and starts no earlier.
void enqueue(StreamHandle stream, std::function<void(Nanoseconds& end, Nanoseconds issued)> task);

/// Records when a launched task ran, for the rank that launched it, if that rank keeps records. The host makes the
/// object, and the stream calls `ran`.
class Launch {
 public:
  enum class By : bool { this_thread, a_thread_of_the_library };  ///< ids are a thread's own
  explicit Launch(StreamHandle stream, By by = By::this_thread);
  void ran(Nanoseconds start, Nanoseconds end) const;

 private:
  class Records;
  friend struct ThisRank;
  std::shared_ptr<Records> records_;
  std::uint64_t id_ = 0;
  std::uint64_t stream_;
};

/// Launches a kernel: a task that does `work` and takes the virtual time `cost`.
void launch(StreamHandle stream, Nanoseconds cost, std::function<void()> work);

/// The number of allocations in this process that are not freed.
std::int64_t live_allocations();

const CudaTable& runtime();
const ActivityTable& activity();

}  // namespace shardproof::device::cuda::cpu
