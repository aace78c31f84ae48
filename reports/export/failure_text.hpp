// The text of bad cases: why each is bad, and the commands that show it again. Pure.
#pragma once

#include <string>
#include <vector>

#include "reports/explain/causes.hpp"
#include "reports/export/text_style.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Whether the case has a text of its own. A bad case has one. A waived case has one only if `style` is verbose. Else
/// the summary lists waived cases by reason.
bool has_own_text(const CaseResult& result, const TextStyle& style);

/// The first line of a case's text: the verdict, the id, the first rank that failed, and the number of failed
/// assertions. `placement`: of its world.
std::string failure_line(const CaseResult& result, const TextStyle& style, const Placement& placement);

/// The text of a bad case. For a waived case, it includes the waiver's owner and reason. Failures that several ranks
/// share in file, line and values are shown once, with these ranks. Unless `style` is verbose, failures with the same
/// cause are also shown once. The clauses that a failure breaks come after it.
std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style);

/// The part of `failure_text` that says why the case is bad, first cause first.
std::string cause_text(const CaseResult& result, const Report& report, const TextStyle& style);

/// The text of the first case of a group, and the number of its other cases.
std::string failure_text(const CauseGroup& group, const Report& report, const TextStyle& style);

/// The cases that have a text of their own, by cause, in the order of the report. A verbose style groups no cases.
std::vector<CauseGroup> failure_groups(const Report& report, const TextStyle& style);

/// The texts of all bad cases. Shows each cause once, in the order of the report. A verbose text shows each case.
std::string failures_text(const Report& report, const TextStyle& style);

}  // namespace shardproof::reports
