// Which ranks are at work, where all of them are threads of one process: when that process dies or stands still, it can only have been one of
// these.
#pragma once

#include <vector>

#include "harness/control/control_page.hpp"

namespace shardproof::launcher {

/// The rank that has the turn; where ranks take no turns, all that do not wait for others. None: every rank waits.
std::vector<int> running_ranks(const ControlPage& page);

}  // namespace shardproof::launcher
