// Runs a single world to its end in a test.
#pragma once

#include <utility>
#include <vector>

#include "launcher/process/poller.hpp"
#include "launcher/run/world.hpp"

namespace shardproof::launcher::testing {

inline WorldOutcome run_world(protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                              const WorldLaunch& launch, std::vector<LiveView> views = {}) {
  const auto world = start_world(plan, directory, launch, std::move(views));
  Poller poller;
  poller.add(world->descriptor(), 0);
  while (!world->is_over()) {
    poller.wait(world->deadline());
    world->handle_events();
  }
  return world->outcome();
}

}  // namespace shardproof::launcher::testing
