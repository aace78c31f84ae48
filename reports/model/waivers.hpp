// What waivers excuse in a report, and what has become of each of them. A waiver never changes a verdict. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// The first that applies:
///   expired          its last day is before the day on which the run started, or nobody knows when that was: it excuses nothing
///   unexpected_pass  a case that it covers passed, each time that it ran, each attempt counted; the waiver is wrong, or too wide
///   used             it excuses a case
///   unused           the run had all cases that the worker has, and it covers none; not said where its conditions on fabric, device,
///                    subject or fault hold nowhere in the run
///   idle             nothing to say: its conditions do not hold here, or what it covers was skipped, not run, or ended in another way
enum class WaiverState : std::uint8_t { expired, unexpected_pass, used, unused, idle };

std::string_view to_string(WaiverState state);

struct WaiverUse {
  WaiverState state = WaiverState::idle;
  std::vector<std::string> waived;  ///< ids of cases that ended at least once with the verdict that it excuses
  std::vector<std::string> passed;  ///< ids of cases that passed unexpectedly
};

/// Sets `waiver` of each case that one of the head's waivers excuses: the first, of several. Nothing else changes.
void apply_waivers(Report& report);
/// Of these cases of it alone.
void apply_waivers(std::span<CaseResult> cases, const Report& report);

/// What became of each of the head's waivers, in their order.
std::vector<WaiverUse> waiver_uses(const Report& report);

}  // namespace shardproof::reports
