#include "reports/model/report.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "reports/model/findings.hpp"

namespace shardproof::reports {

using protocol::Ending;

std::string to_text(const Measurement& measurement) {
  return measurement.unit.empty() ? fmt::format("{}", measurement.value)
                                  : fmt::format("{} {}", measurement.value, measurement.unit);
}

std::string rank_text(const Placement& placement, int rank) {
  const PlacedHost* const host = placement.hosts().size() > 1 ? placement.find(rank) : nullptr;
  return host == nullptr ? fmt::format("rank {}", rank) : fmt::format("rank {} on {}", rank, host->name);
}

bool is_exact(std::string_view device, std::string_view unit) {
  return device == "sim" || (unit != "us" && unit != "ms" && unit != "s" && unit != "x");
}

bool is_unexcused_failure(const CaseResult& result) {
  return is_bad(result.verdict) && result.verdict != Verdict::not_run && result.waiver < 0;
}

std::map<Verdict, std::size_t> Report::counts() const {
  std::map<Verdict, std::size_t> counts;
  for (const auto verdict : all_verdicts) counts[verdict] = 0;
  for (const auto& result : cases) counts[result.verdict] += result.superseded ? 0 : 1;
  return counts;
}

std::size_t Report::counted() const {
  return static_cast<std::size_t>(std::ranges::count(cases, false, &CaseResult::superseded));
}

std::vector<std::string> Report::flaky() const {
  std::vector<std::string> ids;
  for (std::span<const CaseResult> rest = cases; !rest.empty();) {
    const auto runs = repetitions(rest);
    rest = rest.subspan(runs.size());
    const bool passed =
        std::ranges::any_of(runs, [](const CaseResult& result) { return result.verdict == Verdict::passed; });
    const bool bad = std::ranges::any_of(
        runs, [](const CaseResult& result) { return is_bad(result.verdict) && result.verdict != Verdict::not_run; });
    if (passed && bad) ids.push_back(runs.front().info.id);
  }
  return ids;
}

std::size_t Report::waived() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(cases, [](const CaseResult& result) { return result.waiver >= 0 && !result.superseded; }));
}

std::vector<std::string> names_of_hosts(const Report& report) {
  std::set<std::string> names;
  for (const WorldResult& world : report.worlds) {
    if (world.placement.hosts().size() < 2) continue;
    for (const PlacedHost& host : world.placement.hosts()) names.insert(host.name);
  }
  return {names.begin(), names.end()};
}

std::span<const CaseResult> repetitions(std::span<const CaseResult> cases) {
  const auto last =
      std::ranges::find_if(cases, [&](const CaseResult& other) { return other.info.id != cases.front().info.id; });
  return cases.first(static_cast<std::size_t>(last - cases.begin()));
}

std::string skip_reason(const CaseResult& result) {
  for (const auto& [rank, reason] : result.reasons) {
    if (result.ranks.at(static_cast<std::size_t>(rank)).outcome == protocol::Outcome::skipped) return reason;
  }
  return {};
}

namespace {

using Ranks = std::set<int>;

/// By world: the ranks that died in a waived case.
std::map<int, Ranks> waived_deaths(const Report& report) {
  std::map<int, Ranks> worlds;
  for (const auto& result : report.cases) {
    if (result.waiver < 0) continue;
    for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
      const auto outcome = result.ranks[rank].outcome;
      if (outcome == protocol::Outcome::crashed || outcome == protocol::Outcome::hung)
        worlds[result.world].insert(static_cast<int>(rank));
    }
  }
  return worlds;
}

/// How a world ended, from its processes' endings. The cause outranks its consequences in other ranks.
struct WorldEnd {
  bool died = false;
  /// Each rank that died did so in a waived case, or was released because of a rank that did.
  bool excused = true;
  bool could_not_take_part = false;
  bool never_began = true;  ///< no rank of it began
};

/// For each world: whether all its deaths are in cases that were tried again. Then the later attempts decide.
std::vector<bool> superseded_worlds(const Report& report) {
  std::vector<bool> any(report.worlds.size()), all(report.worlds.size(), true);
  for (const auto& result : report.cases) {
    if (result.verdict != Verdict::crashed && result.verdict != Verdict::hung) continue;
    const auto world = static_cast<std::size_t>(result.world);
    any.at(world) = true;
    all.at(world) = all.at(world) && result.superseded;
  }
  for (std::size_t world = 0; world < any.size(); ++world) all[world] = all[world] && any[world];
  return all;
}

bool has_refusal(const WorldResult& world) { return std::ranges::any_of(world.endings, protocol::is_refusal); }

/// By world: the ranks that lack the outcome of a case. Only such a rank can have refused its world. Empty if no exit
/// code says so.
std::map<int, Ranks> ranks_without_outcome(const Report& report) {
  std::map<int, Ranks> worlds;
  if (std::ranges::none_of(report.worlds, has_refusal)) return worlds;
  for (const auto& result : report.cases) {
    for (std::size_t rank = 0; rank < result.ranks.size() && !result.left_out; ++rank) {
      if (result.ranks[rank].outcome == protocol::Outcome::missing) worlds[result.world].insert(static_cast<int>(rank));
    }
  }
  return worlds;
}

WorldEnd end_of(const WorldResult& world, const Ranks& waived, const Ranks& without_outcome) {
  WorldEnd end;
  bool left = false;
  for (const auto& ending : world.endings) {
    const bool refused = protocol::is_refusal(ending) && without_outcome.contains(ending.rank);
    // A rank that ended before it left its world broke the world, whatever its exit code was.
    const bool failed = ending.how == Ending::How::exited && (ending.code != 0 || ending.is_cause) && !refused;
    if (failed || ending.how == Ending::How::signalled || ending.how == Ending::How::overran) {
      end.died = true;
      const bool released = failed && ending.code == protocol::rank_released && !ending.is_cause;
      end.excused = end.excused && (waived.contains(ending.rank) || (!waived.empty() && released));
    }
    end.never_began = end.never_began && ending.how == Ending::How::not_started;
    left = left || refused || ending.how == Ending::How::not_started;
  }
  end.could_not_take_part = left && !end.died;
  return end;
}

}  // namespace

ExitCode exit_code(const Report& report) {
  std::map<Verdict, std::size_t> counts;
  bool died = false, began = false;
  std::size_t left_out = 0;
  for (const auto& result : report.cases) {
    if (result.superseded) continue;
    died = died || result.verdict == Verdict::crashed || result.verdict == Verdict::hung;
    if (result.left_out) ++left_out;
    else if (result.waiver < 0) ++counts[result.verdict];
  }
  auto waived = waived_deaths(report);
  auto without_outcome = ranks_without_outcome(report);
  const std::vector<bool> superseded = superseded_worlds(report);
  bool has_unexcused_death = counts[Verdict::crashed] + counts[Verdict::hung] > 0;
  bool defective = counts[Verdict::disagreed] + counts[Verdict::not_run] > 0 || report.cases.empty();
  for (std::size_t i = 0; i < report.worlds.size(); ++i) {
    defective = defective || !report.worlds[i].defects.empty();
    if (superseded[i]) continue;
    const auto number = static_cast<int>(i);
    const auto end = end_of(report.worlds[i], waived[number], without_outcome[number]);
    // After a world or a launcher has died, later worlds may never begin.
    if (end.could_not_take_part && !(end.never_began && (died || began))) return infrastructure;
    began = began || !end.never_began;
    died = died || end.died;
    has_unexcused_death = has_unexcused_death || (end.died && !end.excused);
  }
  if (has_unexcused_death) return crashed_or_hung;
  if (defective) return evidence_unusable;
  if (counts[Verdict::failed] + counts[Verdict::error] > 0) return case_failed;
  if (left_out > 0) return evidence_unusable;  // no failed case explains it
  return findings(report).empty() ? all_passed : over_budget;
}

}  // namespace shardproof::reports
