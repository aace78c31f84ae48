// Makes cases from declarations: each combination of world size and parameter values is its own case with an id. Pure.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/case_info.hpp"

namespace shardproof {
struct CaseDeclaration;
struct EngineClauses;
struct SuiteEngine;
class Rank;
}  // namespace shardproof

namespace shardproof::cases {

struct BoundCase {
  protocol::CaseInfo info;
  std::function<void(Rank&)> body;
  std::vector<std::string> seeds;  ///< tests that it descends from
  const EngineClauses* engine_clauses = nullptr;  ///< of its kind of engine, where there are any
};

struct BoundCases {
  std::vector<BoundCase>
      cases;       ///< in order of declaration; world sizes outermost, then engine kinds, the last parameter fastest
  std::vector<std::string> problems;  ///< each begins with `file:line: `; a program with any must not run
};

/// Cases refer to `engine_clauses`, which must outlive them.
BoundCases bind_cases(std::span<const CaseDeclaration> declarations, std::span<const SuiteEngine> suite_engines,
                      std::span<const EngineClauses> engine_clauses = {});

/// The clauses that a failure outside of all scopes breaks: the case's clauses that no scope judges. Without such
/// clauses, all clauses of the case.
std::vector<std::string> clauses_outside_scopes(const BoundCase& bound);

/// A kind of engine that cases may be for, and the features that they may need of it.
struct KnownKind {
  std::string_view name;
  std::vector<std::string_view> features;
};

/// Names unknown kinds, and features that engines of the case's kind cannot have: every subject would skip such a case.
/// Each problem begins with `file:line: `. A case without a kind needs one kind with all its features.
std::vector<std::string> problems_of_needs(std::span<const BoundCase> cases, std::span<const SuiteEngine> suite_engines,
                                           std::span<const KnownKind> kinds);

/// Which cases descend from which seed test, in order of first mention.
std::vector<protocol::SeedInfo> seeds_of(std::span<const BoundCase> cases);

}  // namespace shardproof::cases
