// Which fault is noticed by which case? A fault that no case notices shows a clause that nothing guards. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// What became of one case under one fault.
enum class Cell : std::uint8_t {
  unrelated,  ///< no clause of the case is broken by the fault: not run
  skipped,    ///< without the fault already: nothing of it is seen here
  waived,     ///< it is known not to pass without the fault either
  unknown,    ///< skipped with the fault alone, not run, or it does not pass without the fault either
  survived,
  derailed,   ///< an error, a disagreement, a hang or a crash: the fault ended the case, no assertion noticed it
  elsewhere,  ///< assertions failed, all of them under clauses that the fault does not break
  killed,     ///< an assertion failed under a clause that the fault breaks
};

struct FaultRow {
  FaultInfo fault;
  std::vector<Cell> cells;  ///< one for every case of the matrix
  std::vector<std::string> by;
  std::vector<std::string> named;  ///< clauses of the fault that the failures of these cases name, sorted
  bool killed() const { return !by.empty(); }
  /// False where all cases that look for it are skipped here, with the fault and without it, or waived.
  bool judged() const;
};

struct KillMatrix {
  std::vector<std::string> cases;  ///< those that a clause relates to some fault
  std::vector<FaultRow> rows;
  bool all_killed() const;  ///< of those that are judged
};

/// The cases that must notice the fault if any does: those with a clause that it breaks.
std::vector<CaseInfo> related_cases(const FaultInfo& fault, const std::vector<CaseInfo>& cases);

/// `faulty` has one report for each of `faults`, in the same order. A case kills when it passes in `clean`, and with the fault an assertion fails under a
/// clause that the fault breaks. A fault that merely makes the subject throw would end every case, whatever that case looks at.
KillMatrix kill_matrix(const std::vector<FaultInfo>& faults, const std::vector<CaseInfo>& cases, const reports::Report& clean,
                       const std::vector<reports::Report>& faulty);

/// `[{name, clauses, what, judged, killed, by, named}]`.
nlohmann::ordered_json to_json(const KillMatrix& matrix);
std::string to_text(const KillMatrix& matrix, bool color);

}  // namespace shardproof::launcher
