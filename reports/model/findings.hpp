// Findings: the demands beyond verdicts that a run does not meet, and facts that make a run prove nothing. The summary,
// the report and the exit code use them. Pure. There is a finding for:
//   - too many skips or waivers,
//   - a required clause without a passed case,
//   - a waiver that is over, unused or wrong,
//   - claims that skip every case, or that name no known engine kind.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// A clause in Demands::require, and the number of case runs that check it.
struct Requirement {
  std::string clause;
  std::size_t cases = 0;
  std::size_t passed = 0;  ///< of these cases
};

/// The requirements in the order of the demand. Each clause occurs once.
std::vector<Requirement> requirements(const Report& report);

/// The findings, a sentence each. The sentence says what to do, unless that is obvious. A run with a finding ends with
/// `over_budget`, unless a stronger exit code applies.
std::vector<std::string> findings(const Report& report);

/// True for a run that only skipped: every case was skipped, no rank broke its world, and the report has no finding
/// except that of claims.
bool only_skipped(const Report& report);

}  // namespace shardproof::reports
