// A planned run from its first world to its report: what `run` does once, and `faults` once for every fault.
#pragma once

#include <string>

#include "harness/protocol/run_directory.hpp"
#include "launcher/commands/options.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

struct RunResult {
  reports::Report report;
  std::string infrastructure_error;  ///< empty, or why a world could not do its work
  std::string output_error;          ///< empty, or why not all could be written
  int interrupted_by = 0;
  bool is_written = false;  ///< the report is where it belongs
};

/// Runs world after world and merges what they leave, whatever happens to them; writes `run.json`, the worlds and `report.json`. What a world
/// has not come to when a rank ends it runs in a fresh one, behind the case that ended it.
RunResult run_plan(const Worker& worker, Plan plan, const RunDirectory& directory, reports::RunHead head, SignalWatch& signals,
                   Terminal& terminal, const Persistence& persistence = {}, const Attention& attention = {});

/// The first that applies, of the exit codes that launcher.hpp lists.
int exit_code(const RunResult& result);

/// The head of a report that is made now, by the command line `argv`.
reports::RunHead make_head(const Worker& worker, const Plan& plan, const PlanOptions& options, const std::vector<std::string>& argv);

}  // namespace shardproof::launcher
