#include "reports/model/findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "harness/base/closest.hpp"
#include "reports/model/waivers.hpp"

namespace shardproof::reports {

namespace {

std::string cases_text(std::size_t count) { return fmt::format("{} case{}", count, count == 1 ? "" : "s"); }

std::string few_of(std::span<const std::string> ids) {
  constexpr std::size_t shown = 3;
  const auto few = ids.first(std::min(ids.size(), shown));
  return ids.size() <= shown ? fmt::format("{}", fmt::join(few, ", "))
                             : fmt::format("{} and {} more", fmt::join(few, ", "), ids.size() - shown);
}

// A run with only such skips would succeed, and prove nothing.
std::optional<std::string> finding_of_claims(const Report& report) {
  if (report.counted() == 0) return std::nullopt;
  if (!std::ranges::all_of(report.cases, [](const CaseResult& result) {
        return result.superseded || (result.verdict == Verdict::skipped && result.unclaimed);
      }))
    return std::nullopt;
  const std::size_t count = report.counted();
  return fmt::format(
      "{} skipped, because {}: this run proves nothing; correct the claims of the subject, or select other cases",
      count == 1 ? "the only case was" : fmt::format("all {} cases were", count), skip_reason(report.cases.front()));
}

std::string finding_of_kind(const std::string& kind, const Report& report) {
  std::set<std::string> played;
  for (const CaseResult& result : report.cases) {
    if (!result.info.engine.empty()) played.insert(result.info.engine);
  }
  const std::string near = base::closest(played, kind);
  return fmt::format("subject {} claims the engine kind {}, which this worker does not know{}: correct its claims",
                     report.head.subject, kind, near.empty() ? "" : fmt::format(" (closest is {})", near));
}

std::optional<std::string> finding_of(const Requirement& requirement) {
  if (requirement.passed > 0) return std::nullopt;
  if (requirement.cases == 0)
    return fmt::format("required clause {}: no case of this run checks it", requirement.clause);
  return requirement.cases == 1
             ? fmt::format("required clause {}: its only case did not pass", requirement.clause)
             : fmt::format("required clause {}: none of its {} cases passed", requirement.clause, requirement.cases);
}

/// `; closest is 'mine/one[W=2]'`, if a case, its name or its suite has nearly the name of the pattern.
std::string hint_for(const std::string& pattern, const Report& report) {
  std::set<std::string> names;
  for (const CaseResult& result : report.cases) {
    const std::string& id = result.info.id;
    names.insert({id, id.substr(0, id.find('[')), result.info.suite});
  }
  const std::string near = base::closest(names, pattern);
  return near.empty() ? near : fmt::format("; closest is '{}'", near);
}

/// `hint`: a name that the pattern of an unused waiver may mean.
std::optional<std::string> finding_of(const Waiver& waiver, const WaiverUse& use, const RunHead& head,
                                      const std::string& hint) {
  switch (use.state) {
    case WaiverState::expired:
      if (head.started.empty())
        return fmt::format("expires on {}, but the start of this run is unknown: it excuses nothing", waiver.expires);
      return fmt::format("expired on {}: it excuses nothing until {} renews it", waiver.expires, waiver.owner);
    case WaiverState::unexpected_pass:
      return fmt::format("unexpected pass of {}: remove the waiver, or make its pattern narrower", few_of(use.passed));
    case WaiverState::unused: return "unused: it covers no case" + hint;
    case WaiverState::used:
    case WaiverState::idle: break;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Requirement> requirements(const Report& report) {
  std::vector<Requirement> all;
  for (const std::string& clause : report.head.demands.require) {
    if (std::ranges::find(all, clause, &Requirement::clause) != all.end()) continue;
    Requirement& requirement = all.emplace_back(Requirement{.clause = clause});
    for (const CaseResult& result : report.cases) {
      if (result.superseded || std::ranges::find(result.info.clauses, clause) == result.info.clauses.end()) continue;
      ++requirement.cases;
      if (result.verdict == Verdict::passed) ++requirement.passed;
    }
  }
  return all;
}

std::vector<std::string> findings(const Report& report) {
  std::vector<std::string> all;
  if (auto finding = finding_of_claims(report)) all.push_back(*std::move(finding));
  for (const std::string& kind : report.head.unknown_kinds) all.push_back(finding_of_kind(kind, report));
  const Demands& demands = report.head.demands;
  const auto skipped = report.counts().at(Verdict::skipped);
  if (demands.max_skips && skipped > *demands.max_skips)
    all.push_back(fmt::format("{} skipped, at most {} may be (--max-skips)", cases_text(skipped), *demands.max_skips));
  const auto waived = report.waived();
  if (demands.max_waivers && waived > *demands.max_waivers)
    all.push_back(
        fmt::format("{} waived, at most {} may be (--max-waivers)", cases_text(waived), *demands.max_waivers));
  for (const Requirement& requirement : requirements(report)) {
    if (auto finding = finding_of(requirement)) all.push_back(*std::move(finding));
  }
  const auto uses = waiver_uses(report);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Waiver& waiver = report.head.waivers[i];
    if (const auto finding = finding_of(waiver, uses[i], report.head,
                                        uses[i].state == WaiverState::unused ? hint_for(waiver.pattern, report) : ""))
      all.push_back(fmt::format("waivers[{}] {} ({}, {}): {}", i, waiver.pattern, to_string(waiver.verdict),
                                waiver.owner, *finding));
  }
  all.insert(all.end(), report.head.unknown_in_waivers.begin(), report.head.unknown_in_waivers.end());
  return all;
}

bool only_skipped(const Report& report) {
  if (report.counted() == 0 || report.counts().at(Verdict::skipped) != report.counted()) return false;
  const ExitCode code = exit_code(report);
  if (code != over_budget) return code == all_passed;
  return finding_of_claims(report) && findings(report).size() == 1;
}

}  // namespace shardproof::reports
