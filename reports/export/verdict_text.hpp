// The words and colours of verdicts, for all texts about cases. Pure.
#pragma once

#include <string>

#include "reports/export/terminal.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

Hue hue_of(Verdict verdict);
Hue hue_of(const CaseResult& result);

/// `FAIL`, or `WAIVED FAIL`, so that no reader takes a waived case for a new failure or for a pass.
std::string headline(const CaseResult& result);

/// Why the case was skipped, and the rank that asked for it. Never empty.
std::string skip_text(const CaseResult& result);

/// `waived by ada until 2030-12-31: the reason (the link)`
std::string waiver_text(const Waiver& waiver);

/// ` (attempt 2)` or ` (repetition 1)`. Empty for a case that ran once.
std::string repetition_text(const CaseResult& result);

}  // namespace shardproof::reports
