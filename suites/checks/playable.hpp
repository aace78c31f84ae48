// Can every right engine carry out a drawn scenario? A few valid scenarios ask for what engines refuse, or for what no engine can know.
#pragma once

#include "harness/scenario/scenario.hpp"

namespace shardproof::suites {

/// No, if a backward leads to no trained parameter, or leaves work to a root that no later backward is sure to reach.
bool is_playable(const scenario::Scenario& scenario);

}  // namespace shardproof::suites
