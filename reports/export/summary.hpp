// The report as text for a terminal. It has:
//   - a paragraph for each cause of failures, with its cases and a command that reproduces it,
//   - the waived and the skipped cases, by reason,
//   - counts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/export/text_style.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

/// The last line of the summary, without a newline and the time of the run: `3 cases in 1 world: 2 passed, 1 failed`.
std::string totals_text(const Report& report, bool color);

/// The number of slowest results that texts show by default.
inline constexpr std::size_t slowest_shown = 5;

/// At most `most` of the slowest results, the slowest first.
std::vector<const CaseResult*> slowest_cases(const Report& report, std::size_t most = slowest_shown);

/// The indices of the worlds, in the order of their numbers. Reports have them in the order of the plan.
std::vector<std::size_t> by_number(const std::vector<WorldResult>& worlds);

/// The part of the summary about missing or corrupt evidence: `EVIDENCE world 1 and 2 others: …`. A sentence that many
/// worlds share appears once. Worlds that an interrupted run did not reach have such a sentence.
std::string defects_text(const Report& report, const TextStyle& style);

/// The part of the summary about cases that did not run. After a crash, these may be most of a plan, so they have one
/// line: `NOT RUN 7 cases: …`.
std::string not_run_text(const Report& report, const TextStyle& style);

std::string summary(const Report& report, const TextStyle& style);

}  // namespace shardproof::reports
