// The kill matrix of `faults`: which case notices which fault. A fault that no case notices shows an unguarded clause.
// Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// The result of one case under one fault.
enum class Cell : std::uint8_t {
  unrelated,  ///< The fault breaks no clause of the case: not run.
  skipped,    ///< Skipped without the fault already: this run shows nothing.
  waived,     ///< A waiver covers its result without the fault.
  unknown,    ///< Skipped only with the fault, not run, or not passed without the fault.
  survived,
  derailed,  ///< An error, a disagreement, a hang or a crash. The fault ended the case, but no assertion noticed it.
  elsewhere,  ///< Assertions failed, but only under clauses that the fault does not break.
  killed,  ///< An assertion failed under a clause that the fault breaks.
};

struct FaultRow {
  protocol::FaultInfo fault;
  std::vector<Cell> cells;  ///< one for every case of the matrix
  std::vector<std::string> by;
  /// The clauses of the fault that failures of the killing cases name, sorted.
  std::vector<std::string> named;
  bool killed() const { return !by.empty(); }
  /// False if all related cases are skipped, with the fault and without it, or waived.
  bool judged() const;
};

struct KillMatrix {
  std::vector<std::string> cases;  ///< cases that share a clause with some fault
  std::vector<FaultRow> rows;
  bool all_killed() const;  ///< of the judged faults
};

/// The cases that must notice the fault, if any case does: they check a clause that the fault breaks.
std::vector<protocol::CaseInfo> related_cases(const protocol::FaultInfo& fault,
                                              const std::vector<protocol::CaseInfo>& cases);

/// `faulty` has one report for each of `faults`, in the same order. A case kills a fault if it passes in `clean`, and
/// with the fault an assertion fails under a clause that the fault breaks. Errors do not count: a fault that makes the
/// subject throw would end every case, whatever the case checks.
KillMatrix kill_matrix(const std::vector<protocol::FaultInfo>& faults, const std::vector<protocol::CaseInfo>& cases,
                       const reports::Report& clean, const std::vector<reports::Report>& faulty);

/// `[{name, clauses, what, judged, killed, by, named}]`.
nlohmann::ordered_json to_json(const KillMatrix& matrix);
std::string to_text(const KillMatrix& matrix, bool color);

}  // namespace shardproof::launcher
