// Plays a scenario on the simulated device of a rank, over any group.
#pragma once

#include "harness/device/sim/sim_platform.hpp"
#include "harness/player/player.hpp"

namespace shardproof::testing {

inline Run play_simulated(const Scenario& scenario, Subject& subject, Group& world, int rank) {
  device::SimPlatform platform(scenario.costs, world, rank, scenario.device);
  return player::play(scenario, subject, platform, rank);
}

}  // namespace shardproof::testing
