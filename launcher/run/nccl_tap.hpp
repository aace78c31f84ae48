// The tap between engines and their NCCL (harness/nccl_tap, docs/nccl-tap.md) under the ranks of a run: where it is, whether a
// program can be run under it, and what ranks are told for it. The launcher itself never loads it.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::launcher {

struct NcclTap {
  std::filesystem::path library;  ///< empty until it has been found
  std::string faults;  ///< a list as in harness/protocol/nccl_faults.hpp, read and found right; empty: none
};

/// Throws CommandError (usage) with what is wrong in a list of faults, else gives it back.
std::string checked_nccl_faults(const std::string& list);

/// Where the one is that was built with this executable, whether or not it was.
std::filesystem::path built_tap();

/// Why this library cannot be preloaded into this program; empty: nothing speaks against it. Of a script, nothing is known.
std::string why_not_preloadable(const std::filesystem::path& library, const std::filesystem::path& program);

/// Puts into the tap which library it is. Throws CommandError (infrastructure) when it was not built, or cannot be preloaded into the
/// worker.
void find_tap(NcclTap& tap, const std::filesystem::path& worker);

/// Tells the ranks of a world to make their calls of NCCL through the tap, each with a record of its own in `directory`, by what they are
/// told beside `environment`: NAME=value of all of them.
void put_under_tap(WorldPlan& plan, const NcclTap& tap, const WorldDirectory& directory, std::span<const std::string> environment);

}  // namespace shardproof::launcher
