// The exit codes of `shardproof`.
#pragma once

namespace shardproof::reports {

/// If several codes apply, the first in this order counts: usage, infrastructure, crashed_or_hung, evidence_unusable,
/// case_failed, over_budget.
enum ExitCode : int {
  all_passed = 0,
  case_failed = 1,
  usage = 2,              ///< Bad arguments, no selected case, or unusable output.
  infrastructure = 3,     ///< The worker is not a valid one, or its ranks could not meet or stay.
  crashed_or_hung = 4,
  evidence_unusable = 5,  ///< Missing or corrupt evidence, or ranks disagree.
  over_budget = 6,        ///< A demand beyond verdicts is not met: skips, waivers, required clauses (findings.hpp).
};

}  // namespace shardproof::reports
