// The tap between engines and NCCL (harness/nccl_tap, docs/nccl-tap.md), seen from the launcher. Finds the tap's
// library, checks that a program can run under it, and makes the ranks' environment. The launcher itself never loads
// it.
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
  std::string faults;  ///< a valid list as in harness/protocol/nccl_faults.hpp; empty: no faults
};

/// Returns `list`. Throws CommandError (usage) with the reason if it is not a valid list of faults.
std::string checked_nccl_faults(const std::string& list);

/// The path of the tap that belongs to this executable. The file may be missing.
std::filesystem::path built_tap();

/// Why this library cannot be preloaded into this program. Empty: no known reason. Scripts are not checked.
std::string why_not_preloadable(const std::filesystem::path& library, const std::filesystem::path& program);

/// Sets `tap.library`. Throws CommandError (infrastructure) if the tap was not built, or cannot be preloaded into the
/// worker.
void find_tap(NcclTap& tap, const std::filesystem::path& worker);

/// Makes the ranks of a world call NCCL through the tap, each with its own record in `directory`. It adds to the
/// environment of each rank in `plan`. `environment` is the environment of all ranks, as NAME=value.
void apply_tap(protocol::WorldPlan& plan, const NcclTap& tap, const protocol::WorldDirectory& directory,
               std::span<const std::string> environment);

}  // namespace shardproof::launcher
