// Carries out a planned run, from its first world to its report. `run` does this once, and `faults` once for every
// fault.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/run_directory.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/run/world.hpp"
#include "launcher/terminal/live_view.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// How a run goes on after ranks ended a world.
struct RetryOptions {
  int retries = 0;    ///< How often to try a case again that ended badly, in a world of such cases.
  /// The number of worlds that a run may lose to a deadline, or to a rank that cannot go on. A sick machine loses every
  /// world.
  int max_hangs = 5;
  bool fail_fast = false;  ///< The run ends at its first failed case that no waiver excuses.
};

class RunEvents;

/// How the user watches running ranks.
struct MonitorOptions {
  int debug = -1;  ///< This rank waits for a debugger. -1: no rank.
  RankWrapper wrapper;
  std::vector<int> output_of;  ///< Ranks whose output is shown while they run.
  /// One line for each failure, when its world has ended. Only in a long run, while other worlds still run.
  bool failures = false;
  std::optional<LiveView> view;  ///< Shown as well, while ranks run: the progress of a command with several runs.
  RunEvents* events = nullptr;  ///< Prints the events of the run for a program. Nullptr: no program follows the run.
};

struct RunResult {
  reports::Report report;
  std::string infrastructure_error;  ///< why a world could not do its work; empty: no error
  std::string output_error;  ///< why an output could not be written; empty: no error
  int interrupted_by = 0;
  bool is_written = false;  ///< report.json is written
};

/// Runs the worlds and merges what they leave, however they end. Writes `run.json`, the worlds and `report.json`. If a
/// rank ends its world early, a fresh world runs the cases after the case that ended it. With `fail_fast`, no case
/// begins after a failed case: the ranks of its world leave, and the launcher ends the other worlds.
RunResult run_plan(const Worker& worker, Plan plan, const protocol::RunDirectory& directory, reports::RunHead head,
                   SignalWatch& signals, Terminal& terminal, const RetryOptions& retry = {},
                   const MonitorOptions& monitor = {});

/// The first exit code in launcher.hpp that applies.
int exit_code(const RunResult& result);

/// The head of a new report, for the command line `argv`.
reports::RunHead make_head(const Worker& worker, const Plan& plan, const PlanOptions& options,
                           const std::vector<std::string>& argv);

}  // namespace shardproof::launcher
