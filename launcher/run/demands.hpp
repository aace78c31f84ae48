// The user's demands on a run beyond verdicts, and the known failures. Puts them from the command line into a report's
// head.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// The user's demands on a run beyond verdicts, and the known failures.
struct DemandOptions {
  std::optional<std::size_t> max_skips, max_waivers;
  std::vector<std::string> require;  ///< clauses
  std::filesystem::path waivers;     ///< empty: no waivers
};

/// Puts the given demands into `head`, and keeps the others. `listing` has the worker's clauses; nullptr: they are
/// unknown. Throws CommandError (usage):
///   - for a clause that the worker does not know, with the closest known clause,
///   - for a file that is not a valid file of waivers, naming file, waiver and field.
void apply_demands(reports::RunHead& head, const DemandOptions& options, const protocol::Listing* listing);

}  // namespace shardproof::launcher
