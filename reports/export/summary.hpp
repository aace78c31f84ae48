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

std::string summary(const Report& report, const TextStyle& style);

}  // namespace shardproof::reports
