// How a running world shows its progress while ranks run. The terminal makes it, and a world calls it.
#pragma once

#include <chrono>
#include <functional>

#include "harness/control/control_plane.hpp"

namespace shardproof::launcher {

/// Shows a world's progress, at most once per `interval`.
struct LiveView {
  std::chrono::milliseconds interval{100};
  std::function<void(const control::ControlPlane&)> show;
};

}  // namespace shardproof::launcher
