// Checks of warnings: which ranks warned, in which iterations, and about which modules. Cases on later iterations use
// them.
#pragma once

#include <string>
#include <vector>

#include "harness/player/run.hpp"

namespace shardproof::exec_order {

/// Warnings of all calls of one iteration. Excludes warnings from the creation of an engine, which are not about the
/// order.
std::vector<Warning> warnings(const Run& run, int iteration);

/// Checks that this rank warned once or more in this iteration, and that one warning names the rank and these modules.
void check_warned(const Run& run, int iteration, int rank, const std::vector<std::string>& modules);

/// Checks that this rank did not warn in iterations [from, to).
void check_silent(const Run& run, int from, int to);

}  // namespace shardproof::exec_order
