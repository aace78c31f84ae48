// Commands that repeat a part of a run, for its user to copy. Pure.
#pragma once

#include <string>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// The command that runs only this case again, with the settings that matter for it. `with_waivers` keeps --waivers.
std::string repeat_command(const CaseResult& result, const Report& report, bool with_waivers = true);

/// The command that plays one scenario of the case.
std::string scenario_command(const std::string& file, const CaseResult& result, const Report& report);

/// The command that shows the failure of a waived case. It plays the scenario that the waiver names, or runs the case
/// without waivers, which shows it in full.
std::string waived_failure_command(const CaseResult& result, const Report& report);

}  // namespace shardproof::reports
