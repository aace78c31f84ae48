// The report as people read it on a terminal: a paragraph for each cause of failures, with the cases that show it and a command that
// reproduces it; what is waived or was skipped, by reason; then counts.
#pragma once

#include <string>

#include "reports/export/text_style.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Is this case to be told by itself? Bad ones are; those that are waived only where all is asked for, else the summary says them by reason.
bool is_worth_telling(const CaseResult& result, const TextStyle& style);
/// The first line of its text: the verdict, the id, and how many assertions failed.
std::string failure_line(const CaseResult& result, const TextStyle& style);
/// One bad case; of one that is waived, by whom and why too.
/// Failures that several ranks share in file, line and values are shown once, with those ranks. So are those of one cause, unless all is
/// asked for. After each come the clauses that it breaks.
std::string failure_text(const CaseResult& result, const Report& report, const TextStyle& style);
/// Of that, what made it bad, first cause first.
std::string cause_text(const CaseResult& result, const Report& report, const TextStyle& style);
std::string summary(const Report& report, const TextStyle& style);
/// The command that runs the case again, alone, with the settings that matter for it. `with_waivers` keeps --waivers.
std::string again(const CaseResult& result, const Report& report, bool with_waivers = true);

}  // namespace shardproof::reports
