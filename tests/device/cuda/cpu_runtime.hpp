// What the backend uses of CUDA, on the CPU: every stream is a thread that does its work in order, events tie streams together, and memory
// comes and goes in stream order. Work is really asynchronous; its times are virtual, by the rules of the simulated device
// (docs/simulated-time.md), and so do not depend on how threads happen to run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "harness/device/cuda/vendor.hpp"
#include "harness/protocol/trace.hpp"  // Nanoseconds

namespace shardproof::cuda::cpu {

// Status codes, with CUDA's own numbers.
inline constexpr Status invalid_value = 1, out_of_memory = 2, no_device = 100, not_ready = 600;
// And with CUPTI's.
inline constexpr Status not_started = 15, queue_empty = 18;

/// Work as its stream's thread does it. `end` is the virtual time at which all before it has ended; it moves it on.
using Task = std::function<void(Nanoseconds& end)>;

/// Puts a task on a stream. It is told the host's clock at this moment: it starts no earlier.
void enqueue(StreamHandle stream, std::function<void(Nanoseconds& end, Nanoseconds issued)> task);

/// Notes for the rank that launches something when it ran, where that rank has records kept. Made by the host, told by the stream.
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

/// A kernel that takes `cost`: a task that does its work and takes that long.
void launch(StreamHandle stream, Nanoseconds cost, std::function<void()> work);

/// Allocations that nobody has freed, in this process.
std::int64_t live_allocations();

const CudaTable& runtime();
const ActivityTable& activity();

}  // namespace shardproof::cuda::cpu
