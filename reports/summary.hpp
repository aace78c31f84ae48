// The report as people read it on a terminal: failures in full, first cause first, with the command that reproduces each; what is waived or
// was skipped, by reason; then counts.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reports/report.hpp"

namespace shardproof::reports {

struct TextStyle {
  bool color = false;
  bool verbose = false;  ///< every case, with its measurements, the slowest ones, and failures without a limit
  bool quiet = false;  ///< failures and the last line only
  std::map<std::string, std::string> clauses;  ///< texts by clause id, where the worker's listing is at hand
  std::string place;  ///< of the run directory, with a slash at its end; empty: what lies in it is named as seen from there
  bool is_kept = true;  ///< false: the run directory is deleted when the command ends, and no file in it is named
  /// Files that hold what a case of the world of this number has played; none: unknown.
  std::function<std::vector<std::string>(const CaseResult&, int world)> scenarios;
  /// One line: the place of the stacks of a rank that hung, or the reason why they are missing. Empty: unknown.
  std::function<std::string(int world, int rank)> stacks;
};

/// Is this case to be told by itself? Bad ones are; those that are waived only where all is asked for, else the summary says them by reason.
bool is_worth_telling(const CaseResult& result, const TextStyle& style);
/// The first line of its text: the verdict, the id, and how many assertions failed.
std::string failure_line(const CaseResult& result, const TextStyle& style);
/// One bad case; of one that is waived, by whom and why too.
/// Failures that several ranks share in file, line and values are shown once, with those ranks.
std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style);
/// Of that, what made it bad, first cause first.
std::string cause_text(const CaseResult& result, const Report& report, const TextStyle& style);
std::string summary(const Report& report, const TextStyle& style);

}  // namespace shardproof::reports
