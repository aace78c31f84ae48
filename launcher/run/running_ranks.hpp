// Finds the ranks that run, if all ranks are threads of one process. If that process dies or hangs, one of these ranks
// caused it.
#pragma once

#include <vector>

#include "harness/control/control_plane.hpp"

namespace shardproof::launcher {

/// The rank that has the turn. If ranks do not take turns: all ranks that do not wait for others. Empty: every rank
/// waits.
std::vector<int> running_ranks(const control::ControlPlane& page);

}  // namespace shardproof::launcher
