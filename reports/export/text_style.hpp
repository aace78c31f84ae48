// How to write a report for people: settings of the text functions in this folder.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Text of a rank, from one of its streams.
struct PrintedText {
  std::string text;
  std::string log;  ///< The path of the log that has the rest.
};

struct TextStyle {
  bool color = false;
  bool verbose = false;  ///< Show every case and its measurements, the slowest cases, and all failures.
  bool quiet = false;  ///< Show only failures and the last line.
  /// How many of the slowest cases to show. Nullopt: five if the text is verbose and not quiet, else none.
  std::optional<std::size_t> slowest;
  std::optional<std::chrono::nanoseconds> run_time;  ///< How long the run took. Nullopt: unknown.
  std::map<std::string, std::string> clauses;  ///< The text of each clause, by id, if the worker's listing is known.
  /// The path of the run directory, with a slash at its end. Empty: paths in the text are relative to the run
  /// directory.
  std::string run_directory;
  /// False: the command deletes the run directory when it ends. Then the text names no file in it.
  bool is_kept = true;
  /// Files with the scenarios that a case played in the world of this number. Empty: unknown.
  std::function<std::vector<std::string>(const CaseResult&, int world)> scenarios;
  /// One line: the place of the stacks of a rank that hung, or the reason why they are missing. Empty: unknown.
  std::function<std::string(int world, int rank)> stacks;
  /// The last output of a rank in a case that went wrong. Empty: nothing, or unknown.
  std::function<std::vector<PrintedText>(const CaseResult&, int world, int rank)> printed;
  /// The text about the stack of a rank that crashed (crash_text.hpp). Empty: unknown.
  std::function<std::string(int world, int rank)> crash;
};

}  // namespace shardproof::reports
