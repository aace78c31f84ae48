// The results of a report as other programs count them: each case once, with its earlier attempts, and as passed,
// skipped, failed or in error. All exporters of test results use this, so that they agree. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Other formats know no other results:
///   - `skipped`: also a case that a waiver excuses. A waived case did not pass, and must not fail a job.
///   - `failed`: an assertion failed.
///   - `error`: every other bad verdict. A case that did not run is one of them: a job without it must not be green.
enum class ExportedAs : std::uint8_t { passed, skipped, failed, error };

ExportedAs exported_as(const CaseResult& result);

/// A result that counts, and the attempts that it supersedes.
struct ExportedCase {
  const CaseResult* result;
  std::vector<const CaseResult*> earlier;  ///< the first attempt first
  bool is_flaky = false;  ///< This id passed in one repetition or attempt and was bad in another.
};

/// In the order of the report. Borrows the report.
std::vector<ExportedCase> exported_cases(const Report& report);

/// The case's id. A repetition after the first adds its number: two tests with one name would hide each other.
std::string exported_name(const CaseResult& result);

/// The cause of a bad case in one line, which is at most 500 bytes long.
std::string cause_line(const CaseResult& result, const Report& report);
/// The same for a case outside a report. `explanation`: why its world ended early; empty: unknown, or it did not.
/// `placement`: of its world; empty: unknown.
std::string cause_line(const CaseResult& result, const std::string& explanation, const Placement& placement = {});

/// A place in the source. Empty file: unknown.
struct SourcePlace {
  std::string file;
  int line = 0;  ///< 0: unknown
};

/// The place of the first failure that has one. Without such a failure, the place of the case.
SourcePlace place_of(const CaseResult& result);

/// The reason why the case counts as skipped, in one line.
std::string excuse_line(const CaseResult& result, const Report& report);

/// A failure of the run that belongs to no case.
struct RunFailure {
  std::string name;
  std::vector<std::string> sentences;
};

/// Demands that are not met and defects of evidence. Without them, a run that ends with an error, and has no bad case,
/// has one such failure. So a report has a failed case or a failure of the run unless its exit code is 0.
std::vector<RunFailure> run_failures(const Report& report);

/// The name of the suite in which exporters show failures of the run.
inline constexpr char run_suite[] = "shardproof run";

}  // namespace shardproof::reports
