// What a run was asked to show beyond verdicts, and does not: too many skips or waivers, a required clause without a passed case, waivers
// that are over, without use or wrong. And what makes a run prove nothing: claims that skip every case, or that name no known engine kind. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// A clause of Demands::require, and the runs of cases that check it.
struct Requirement {
  std::string clause;
  std::size_t cases = 0;
  std::size_t passed = 0;  ///< of them
};

/// In the order of the demand, each clause once.
std::vector<Requirement> requirements(const Report& report);

/// A sentence each, with what to do about it where that is not plain. A run with a finding ends with `over_budget`, unless something
/// stronger applies.
std::vector<std::string> findings(const Report& report);

}  // namespace shardproof::reports
