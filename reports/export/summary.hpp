// The report as text for a terminal. It has:
//   - a paragraph for each cause of failures, with its cases and a command that reproduces it,
//   - the waived and the skipped cases, by reason,
//   - counts.
#pragma once

#include <string>

#include "reports/export/text_style.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

std::string summary(const Report& report, const TextStyle& style);

}  // namespace shardproof::reports
