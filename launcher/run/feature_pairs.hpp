// The pairs of features that a run played together. Faults are often found where two features meet. `run` reports the
// missing pairs. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// The pairs of one kind of engine. Features are those of the kind, and ingredients of scenarios that have no feature
/// of their own.
struct FeaturePairs {
  std::string engine;
  std::size_t possible = 0;  ///< pairs that some scenario can have
  std::vector<std::pair<std::string, std::string>> missing;  ///< of these, those that no case played; sorted
  std::size_t played() const { return possible - missing.size(); }
};

/// For each of these kinds of engines: the pairs that its passed cases report. Skips a kind without such a case.
std::vector<FeaturePairs> feature_pairs(const reports::Report& report, std::span<const protocol::Combinable> kinds);

/// One line. Empty if there is nothing to report. It names missing pairs if they are few: at most one in twenty.
std::string text_of(std::span<const FeaturePairs> all);

}  // namespace shardproof::launcher
