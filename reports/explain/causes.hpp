// Groups failures by cause. A missing wait causes hundreds of failed cases, and its reader needs one paragraph. Two
// failures have the same cause if they break the same clause at the same place for the same reason. Their values, names
// and times may differ. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// A text that is equal for failures with the same cause.
std::string cause_of(const protocol::event::AssertionFailed& failure);
/// The cause of the case's first failure. A case without a failure has a cause from its verdict and the ranks' reasons.
/// A death or a hang is its own cause.
std::string cause_of(const CaseResult& result);

/// Cases with the same cause.
struct CauseGroup {
  const CaseResult* shown;  ///< the first in the report
  std::vector<const CaseResult*> others;
};

/// Groups cases by their first cause, in the order of the cases.
std::vector<CauseGroup> by_cause(std::span<const CaseResult* const> cases);

}  // namespace shardproof::reports
