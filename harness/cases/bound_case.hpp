// From declarations to cases: every combination of world size and parameter values is a case with an id of its own. Pure.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"

namespace shardproof {

struct CaseDeclaration;
struct SuiteEngine;
class Rank;

struct BoundCase {
  CaseInfo info;
  std::function<void(Rank&)> body;
  std::vector<std::string> seeds;  ///< tests that it descends from
};

struct BoundCases {
  std::vector<BoundCase> cases;       ///< in order of declaration; world sizes outermost, then engine kinds, the last parameter fastest
  std::vector<std::string> problems;  ///< each begins with `file:line: `; a program with any must not run
};

BoundCases bind_cases(std::span<const CaseDeclaration> declarations, std::span<const SuiteEngine> suite_engines);

/// Which cases descend from which seed test, in order of first mention.
std::vector<SeedInfo> seeds_of(std::span<const BoundCase> cases);

}  // namespace shardproof
