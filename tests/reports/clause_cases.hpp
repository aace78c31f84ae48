// Results of cases that cite clauses, for tests of statuses by clause.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports::testing {

/// A result on the simulated device, in a world of one rank, of the engine kind fully_shard.
inline CaseResult citing(const std::string& id, Verdict verdict, std::vector<std::string> clauses) {
  CaseResult result;
  result.info.id = id;
  result.info.suite = id.substr(0, id.find('/'));
  result.info.engine = "fully_shard";
  result.info.clauses = std::move(clauses);
  result.verdict = verdict;
  return result;
}

/// The result with a failure that names these clauses.
inline CaseResult breaking(CaseResult result, std::vector<std::string> clauses) {
  Failure failure;
  failure.assertion.clauses = std::move(clauses);
  result.failures.push_back(std::move(failure));
  return result;
}

/// The result, excused by the first waiver.
inline CaseResult waived(CaseResult result) {
  result.waiver = 0;
  return result;
}

/// The result, skipped because the subject lacks a feature.
inline CaseResult unclaimed(CaseResult result) {
  result.unclaimed = true;
  return result;
}

inline Report report_of(std::vector<CaseResult> cases) {
  Report report;
  report.head.waivers.resize(1);
  report.worlds.push_back({.size = 1, .fabric = "shm", .device = "sim"});
  report.cases = std::move(cases);
  return report;
}

}  // namespace shardproof::reports::testing
