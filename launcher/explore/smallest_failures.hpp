// Small scenarios for failed cases that draw what they play. A drawn scenario has many parts, and few of them matter
// for a failure.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/protocol/run_directory.hpp"
#include "launcher/explore/shrinking.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/terminal/terminal.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

struct SmallestFailure {
  std::string id;  ///< of the case that failed
  Shrunk shrunk;
  std::filesystem::path file;  ///< the smallest scenario
  std::string command;  ///< plays it
};

struct SmallestFailures {
  std::vector<SmallestFailure> found;
  std::size_t left_out = 0;  ///< causes beyond the first few
};

/// Finds a smallest scenario for each cause of failures. With it, the first failed case of the cause fails for the same
/// cause (reports/explain/causes.hpp). Writes `smallest/N/scenario.json` and `smallest/N/as_drawn.json` into the run.
/// `requested` are the settings of the run, and `report` is its report. Ends early when a signal arrives. Throws
/// CommandError if it cannot write.
SmallestFailures find_smallest_failures(const Worker& worker, const PlanOptions& requested,
                                        const reports::Report& report, const protocol::RunDirectory& run,
                                        SignalWatch& signals, Terminal& terminal);

/// For the terminal: a paragraph for each.
std::string text_of(const SmallestFailures& failures);

}  // namespace shardproof::launcher
