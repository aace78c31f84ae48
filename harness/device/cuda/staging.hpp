// Copies to the GPU that never hold up the host. CUDA may let a copy from pageable memory wait for its stream, and the host with it: behind a
// closed gate that would be until the gate gives up. From pinned memory it does not.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::cuda {

class Staging {
 public:
  /// `memory`: pinned, of CudaTable::host_allocate. `events`: as many as there can be copies under way. Both must outlive this. None: every copy
  /// goes without.
  Staging(const CudaTable& cuda, std::span<std::byte> memory, std::vector<EventHandle> events)
      : cuda_(cuda), memory_(memory), free_events_(std::move(events)) {}

  /// Copies host memory, which may change as soon as this returns, to the device. What finds no room, because it is too large or because too
  /// much is under way, is left to the driver and its ways with pageable memory.
  Status upload(void* to, const void* from, std::size_t bytes, StreamHandle stream);

 private:
  // Bytes [begin, end) are read until the event has happened.
  struct Claim {
    std::size_t begin, end;
    EventHandle read;
  };

  Status free_what_was_read();
  /// Where so many bytes in a row are free; none: memory_.size().
  std::size_t find_room(std::size_t bytes) const;

  const CudaTable& cuda_;
  std::span<std::byte> memory_;
  std::deque<Claim> claims_;  ///< in the order of the ring
  std::vector<EventHandle> free_events_;
};

}  // namespace shardproof::cuda
