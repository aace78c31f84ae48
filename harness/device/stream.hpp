// Handles of a device's streams and events.
#pragma once

#include <cstdint>

#include "harness/protocol/trace.hpp"

namespace shardproof {

struct Stream {
  std::uint32_t id = 0;
  StreamRole role = StreamRole::compute;
  friend bool operator==(const Stream&, const Stream&) = default;
};

struct Event {
  std::uint64_t id = 0;
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace shardproof
