// Copies to the GPU without blocking the host. CUDA may make a copy from pageable memory wait for its stream, and the
// host with it. If a closed gate holds the stream, that wait would last until the gate gives up. A copy from pinned
// memory does not wait.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

class Staging {
 public:
  /// `memory` is pinned, from CudaTable::host_allocate. Each copy in flight needs one of the `events`. Both must
  /// outlive this object. If both are empty, the driver makes every copy.
  Staging(const CudaTable& cuda, std::span<std::byte> memory, std::vector<EventHandle> events)
      : cuda_(cuda), memory_(memory), free_events_(std::move(events)) {}

  /// Copies host memory to the device. The caller may change the host memory as soon as this returns. A copy that finds
  /// no room, because it is too large or too much is in flight, goes to the driver as pageable memory.
  Status upload(void* to, const void* from, std::size_t bytes, StreamHandle stream);

 private:
  // A copy reads bytes [begin, end) until the event has happened.
  struct Claim {
    std::size_t begin, end;
    EventHandle read;
  };

  Status free_what_was_read();
  /// The offset of this many consecutive free bytes; memory_.size() if there is no such place.
  std::size_t find_room(std::size_t bytes) const;

  const CudaTable& cuda_;
  std::span<std::byte> memory_;
  std::deque<Claim> claims_;  ///< in the order of the ring
  std::vector<EventHandle> free_events_;
};

}  // namespace shardproof::device::cuda
