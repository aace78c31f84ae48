// The report as text for a terminal. It has:
//   - a paragraph for each cause of failures, with its cases and a command that reproduces it,
//   - the waived and the skipped cases, by reason,
//   - counts.
#pragma once

#include <string>

#include "reports/export/text_style.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Whether the text shows this case by itself. It shows bad cases. It shows a waived case only if `style` is verbose.
/// Else the summary lists waived cases by reason.
bool is_worth_telling(const CaseResult& result, const TextStyle& style);
/// The first line of a case's text: the verdict, the id, and the number of failed assertions.
std::string failure_line(const CaseResult& result, const TextStyle& style);
/// The text of a bad case. For a waived case, it includes the waiver's owner and reason. Failures that several ranks
/// share in file, line and values are shown once, with these ranks. Unless `style` is verbose, failures with the same
/// cause are also shown once. The clauses that a failure breaks come after it.
std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style);
/// The part of `failure_text` that says why the case is bad, first cause first.
std::string cause_text(const CaseResult& result, const Report& report, const TextStyle& style);
std::string summary(const Report& report, const TextStyle& style);
/// The command that runs only this case again, with the settings that matter for it. `with_waivers` keeps --waivers.
std::string again(const CaseResult& result, const Report& report, bool with_waivers = true);

}  // namespace shardproof::reports
