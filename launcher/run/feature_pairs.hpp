// Which pairs of features did a run play together? Faults hide where two features meet. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// The pairs of one kind of engine. Features are those of the kind, and ingredients of scenarios that have no feature of their own.
struct FeaturePairs {
  std::string engine;
  std::size_t possible = 0;  ///< pairs that some scenario can have
  std::vector<std::pair<std::string, std::string>> missing;  ///< of these, those that no case played; sorted
  std::size_t played() const { return possible - missing.size(); }
};

/// For each of these kinds of engines of which a case that passed says what it combined.
std::vector<FeaturePairs> feature_pairs(const reports::Report& report, std::span<const Combinable> kinds);

/// One line, or none if there is nothing to tell. It names missing pairs if there are few: one in twenty, or fewer.
std::string text_of(std::span<const FeaturePairs> all);

}  // namespace shardproof::launcher
