// The report as Markdown for the summary of a CI step: totals, failures by cause with their texts, waived and skipped
// cases, and the slowest cases. Its size has a limit, however many cases fail. Pure.
//
// Foreign text is shown as code, so that nothing in it is Markdown or HTML.
#pragma once

#include <cstddef>
#include <string>

#include "reports/export/text_style.hpp"

namespace shardproof::reports {

/// GitHub shows up to 1 MiB for all steps' commands that write into one summary. The rest is room for other text.
inline constexpr std::size_t markdown_limit = 900'000;

/// At most `limit` bytes, which are at least `least_markdown_limit`. The text counts the causes that it leaves out.
std::string markdown(const Report& report, const TextStyle& style, std::size_t limit = markdown_limit);

inline constexpr std::size_t least_markdown_limit = 20'000;

}  // namespace shardproof::reports
