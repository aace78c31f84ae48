// What `run --rerun-failed` takes from the report of an earlier run: its failed cases and its options. Pure.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "launcher/run/plan.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// Options of the report's run, for its repetition by the command line `argv`. Options that are also in `argv` are left
/// out. With `chooses_placement`, `argv` has chosen a device or a fabric. The options are:
///   - the engine under test and its faults, with the NCCL tap,
///   - the waivers,
///   - the time limit of a case,
///   - the place of its ranks.
std::vector<std::string> options_of_run(const reports::Report& report, const std::vector<std::string>& argv,
                                        bool chooses_placement);

/// The cases that ended badly in the report, that the options' filters select and that the worker still has. Throws
/// CommandError (usage) without such a case. `named` is the report as the user named it.
std::vector<std::string> failed_cases(const reports::Report& report, const protocol::Listing& listing,
                                      const PlanOptions& options, const std::filesystem::path& named);

}  // namespace shardproof::launcher
