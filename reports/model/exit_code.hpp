// What a run's end means to the shell that started it.
#pragma once

namespace shardproof::reports {

/// The first that applies, in this order: usage, infrastructure, crashed_or_hung, evidence_unusable, case_failed, over_budget.
enum ExitCode : int {
  all_passed = 0,
  case_failed = 1,
  usage = 2,              ///< bad arguments, nothing selected, output unusable
  infrastructure = 3,     ///< the worker is not one, or its ranks could not meet or stay
  crashed_or_hung = 4,
  evidence_unusable = 5,  ///< missing, corrupt, or ranks disagree
  over_budget = 6,        ///< a demand beyond verdicts is not met: skips, waivers, required clauses (findings.hpp)
};

}  // namespace shardproof::reports
