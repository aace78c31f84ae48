// Makes a scenario as small as it can be while it still shows the same thing.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "launcher/launcher.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

/// Plays scenarios, and returns for each whether it shows what the search keeps.
using Shows = std::function<std::vector<bool>(std::span<const MadeScenario>)>;

struct Shrunk {
  MadeScenario scenario;
  std::size_t steps = 0;  ///< from the first scenario to the smallest one
  std::size_t plays = 0;
  bool is_smallest = true;  ///< false: an error or a signal ended the search
  bool is_steady = true;    ///< false: the smallest scenario did not show it when it was played once more
  std::optional<CommandError> ended_by;
};

/// Replaces `from` by a smaller scenario that shows it, until no smaller one does. The worker makes the smaller ones.
/// Calls `progress` before each play, with what is known by then. Keeps what it has when a play or the worker throws
/// CommandError.
Shrunk shrink(const Worker& worker, MadeScenario from, const Shows& shows, SignalWatch& signals,
              const std::function<void(const Shrunk&)>& progress);

}  // namespace shardproof::launcher
