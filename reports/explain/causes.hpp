// Which failures have one cause? A missing wait shows in hundreds of cases, and its reader needs one paragraph. Two failures have one cause
// if they break the same clause at the same place for the same reason, whatever their values, names and times are. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Equal for failures of one cause.
std::string cause_of(const event::AssertionFailed& failure);
/// That of its first failure; of a case without one, that of its verdict and the ranks' reasons. A death or a hang is its own cause.
std::string cause_of(const CaseResult& result);

/// Cases of one cause.
struct CauseGroup {
  const CaseResult* shown;  ///< the first in the report
  std::vector<const CaseResult*> others;
};

/// By the first cause of each case, in the order of the cases.
std::vector<CauseGroup> by_cause(std::span<const CaseResult* const> cases);

}  // namespace shardproof::reports
