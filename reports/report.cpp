#include "reports/report.hpp"

#include <fmt/format.h>
#include <algorithm>

namespace shardproof::reports {

std::string to_text(const Measurement& measurement) {
  return measurement.unit.empty() ? fmt::format("{}", measurement.value) : fmt::format("{} {}", measurement.value, measurement.unit);
}

bool is_exact(std::string_view device, std::string_view unit) {
  return device == "sim" || (unit != "ns" && unit != "us" && unit != "ms" && unit != "s");
}

std::map<Verdict, std::size_t> Report::counts() const {
  std::map<Verdict, std::size_t> counts;
  for (const auto verdict : all_verdicts) counts[verdict] = 0;
  for (const auto& result : cases) counts[result.verdict] += result.superseded ? 0 : 1;
  return counts;
}

std::size_t Report::counted() const { return static_cast<std::size_t>(std::ranges::count(cases, false, &CaseResult::superseded)); }

std::vector<std::string> Report::flaky() const {
  std::vector<std::string> ids;
  for (auto first = cases.begin(); first != cases.end();) {
    const auto last = std::find_if(first, cases.end(), [&](const CaseResult& other) { return other.info.id != first->info.id; });
    const bool passed = std::any_of(first, last, [](const CaseResult& result) { return result.verdict == Verdict::passed; });
    const bool bad =
        std::any_of(first, last, [](const CaseResult& result) { return is_bad(result.verdict) && result.verdict != Verdict::not_run; });
    if (passed && bad) ids.push_back(first->info.id);
    first = last;
  }
  return ids;
}

namespace {

/// What happened in a world, from how its processes ended: the cause outranks what the other ranks did because of it.
struct WorldEnd {
  bool died = false;
  bool could_not_take_part = false;
  bool never_began = true;  ///< not one of its ranks
};

/// Whether the worlds' deaths are those of cases that have been tried again: then those decide.
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

WorldEnd end_of(const WorldResult& world) {
  WorldEnd end;
  bool left = false;
  for (const auto& ending : world.endings) {
    const bool failed = ending.how == Ending::How::exited && ending.code != 0 && !is_refusal(ending);
    end.died = end.died || failed || ending.how == Ending::How::signalled || ending.how == Ending::How::overran;
    end.never_began = end.never_began && ending.how == Ending::How::not_started;
    left = left || is_refusal(ending) || ending.how == Ending::How::not_started;
  }
  end.could_not_take_part = left && !end.died;
  return end;
}

}  // namespace

ExitCode exit_code(const Report& report, std::optional<std::size_t> allowed_skips) {
  const auto counts = report.counts();
  bool died = counts.at(Verdict::crashed) + counts.at(Verdict::hung) > 0;
  bool defective = counts.at(Verdict::disagreed) + counts.at(Verdict::not_run) > 0 || report.cases.empty();
  const std::vector<bool> superseded = superseded_worlds(report);
  for (std::size_t i = 0; i < report.worlds.size(); ++i) {
    const auto& world = report.worlds[i];
    if (superseded[i]) continue;
    const auto end = end_of(world);
    // What comes after a world that died may not be tried at all.
    if (end.could_not_take_part && !(end.never_began && died)) return infrastructure;
    died = died || end.died;
    defective = defective || !world.defects.empty();
  }
  if (died) return crashed_or_hung;
  if (defective) return evidence_unusable;
  if (counts.at(Verdict::failed) + counts.at(Verdict::error) > 0) return case_failed;
  if (allowed_skips && counts.at(Verdict::skipped) > *allowed_skips) return over_budget;
  return all_passed;
}

}  // namespace shardproof::reports
