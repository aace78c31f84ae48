// How reports are written for people.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reports/model/report.hpp"

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

}  // namespace shardproof::reports
