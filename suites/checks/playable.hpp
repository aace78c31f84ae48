// Whether every right engine can play a drawn scenario. Engines refuse a few valid scenarios, or cannot know what they
// require.
#pragma once

#include "harness/scenario/scenario.hpp"

namespace shardproof::suites {

/// False if a backward reaches no trained parameter, or leaves work to a root that later backwards may not reach.
bool is_playable(const Scenario& scenario);

}  // namespace shardproof::suites
