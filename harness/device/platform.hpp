// Where a scenario is played: a fresh device with the collectives of one group of ranks, and what was recorded on it.
#pragma once

#include <cstddef>

#include "harness/device/device.hpp"

namespace shardproof {

class Platform {
 public:
  virtual ~Platform() = default;
  virtual Device& device() = 0;
  virtual Communicator& world() = 0;
  /// Ends the recording. Whoever calls it has synchronized the device before: nothing is under way any more.
  virtual Trace take_trace() = 0;
  /// Bytes of buffers not yet released.
  virtual std::size_t live_bytes() const = 0;
};

}  // namespace shardproof
