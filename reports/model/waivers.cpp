#include "reports/model/waivers.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "harness/protocol/case_filter.hpp"

namespace shardproof::reports {

namespace {

bool is_over(const Waiver& waiver, const RunHead& head) {
  const auto day = std::string_view(head.started).substr(0, waiver.expires.size());
  // The age of a run without a day is unknown: the waiver excuses nothing.
  return !is_day(day) || waiver.expires < day;
}

bool allows(const std::optional<std::string>& wanted, const std::string& here) { return !wanted || *wanted == here; }

bool holds_in(const Waiver::When& when, const WorldResult& world, const RunHead& head) {
  return allows(when.fabric, world.fabric) && allows(when.device, world.device) && allows(when.subject, head.subject) &&
         allows(when.fault, head.fault);
}

/// Whether the waiver covers a result whose id matches.
bool covers(const Waiver& waiver, const CaseResult& result, const Report& report) {
  return (!waiver.when.world_size || *waiver.when.world_size == result.info.world_size) &&
         holds_in(waiver.when, report.worlds.at(static_cast<std::size_t>(result.world)), report.head);
}

WaiverUse use_of(const Waiver& waiver, const Report& report) {
  if (is_over(waiver, report.head)) return {.state = WaiverState::expired, .waived = {}, .passed = {}};
  WaiverUse use;
  bool covers_any = false;
  for (std::span<const CaseResult> rest = report.cases; !rest.empty();) {
    const auto runs = repetitions(rest);
    rest = rest.subspan(runs.size());
    const std::string& id = runs.front().info.id;
    if (!protocol::matches_id(id, waiver.pattern)) continue;
    bool covered = false, waived = false, passed = true;
    for (const CaseResult& run : runs) {
      if (!covers(waiver, run, report)) continue;
      covered = true;
      waived = waived || (run.verdict == waiver.verdict && !run.superseded);
      passed = passed && run.verdict == Verdict::passed;
    }
    covers_any = covers_any || covered;
    if (waived) use.waived.push_back(id);
    if (covered && passed) use.passed.push_back(id);
  }
  const bool whole = !report.head.partial && report.head.outside_profile == 0;
  const bool holds = std::ranges::any_of(
      report.worlds, [&](const WorldResult& world) { return holds_in(waiver.when, world, report.head); });
  if (!use.passed.empty()) use.state = WaiverState::unexpected_pass;
  else if (!use.waived.empty()) use.state = WaiverState::used;
  else if (!covers_any && whole && holds) use.state = WaiverState::unused;
  return use;
}

}  // namespace

std::string_view to_string(WaiverState state) {
  constexpr std::array<std::string_view, 5> names{"expired", "unexpected_pass", "used", "unused", "idle"};
  const auto index = static_cast<std::size_t>(state);
  return index < names.size() ? names[index] : "unknown";
}

void apply_waivers(Report& report) { apply_waivers(report.cases, report); }

void apply_waivers(std::span<CaseResult> cases, const Report& report) {
  std::vector<int> in_force;
  for (std::size_t i = 0; i < report.head.waivers.size(); ++i) {
    if (!is_over(report.head.waivers[i], report.head)) in_force.push_back(static_cast<int>(i));
  }
  for (CaseResult& result : cases) {
    if (!is_waivable(result.verdict)) continue;
    const auto found = std::ranges::find_if(in_force, [&](int index) {
      const Waiver& waiver = report.head.waivers[static_cast<std::size_t>(index)];
      return waiver.verdict == result.verdict && protocol::matches_id(result.info.id, waiver.pattern) &&
             covers(waiver, result, report);
    });
    if (found != in_force.end()) result.waiver = *found;
  }
}

std::vector<WaiverUse> waiver_uses(const Report& report) {
  std::vector<WaiverUse> uses;
  uses.reserve(report.head.waivers.size());
  for (const Waiver& waiver : report.head.waivers) uses.push_back(use_of(waiver, report));
  return uses;
}

}  // namespace shardproof::reports
