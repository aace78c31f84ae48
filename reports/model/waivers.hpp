// Applies waivers to a report, and reports the state of each waiver. A waiver never changes a verdict. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// The state of a waiver, the first that applies:
///   - expired: its last day is before the day on which the run started, or that day is unknown. It excuses nothing.
///   - unexpected_pass: a covered case passed in every run and every attempt. The waiver is wrong, or too wide.
///   - used: it excuses a case.
///   - unused: the run had all of the worker's cases, and the waiver covers none of them. This state requires that its
///     conditions on fabric, device, subject and fault hold somewhere in the run.
///   - idle: all else. Its conditions do not hold here, or the covered cases were skipped, not run, or ended in another
///     way.
enum class WaiverState : std::uint8_t { expired, unexpected_pass, used, unused, idle };

std::string_view to_string(WaiverState state);

struct WaiverUse {
  WaiverState state = WaiverState::idle;
  std::vector<std::string> waived;  ///< ids of cases that ended at least once with the waiver's verdict
  std::vector<std::string> passed;  ///< ids of cases that passed unexpectedly
};

/// Sets `waiver` in each case that a waiver of the head excuses. The first such waiver counts. Changes nothing else.
void apply_waivers(Report& report);
/// The same for `cases` only, which belong to `report`.
void apply_waivers(std::span<CaseResult> cases, const Report& report);

/// The state of each of the head's waivers, in their order.
std::vector<WaiverUse> waiver_uses(const Report& report);

}  // namespace shardproof::reports
