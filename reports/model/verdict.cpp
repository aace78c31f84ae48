#include "reports/model/verdict.hpp"

namespace shardproof::reports {

namespace {

constexpr std::array<std::string_view, all_verdicts.size()> verdict_names{"passed", "skipped",   "not_run", "error",
                                                                          "failed", "disagreed", "hung",    "crashed"};

}  // namespace

std::string_view to_string(Verdict verdict) {
  const auto index = static_cast<std::size_t>(verdict);
  return index < verdict_names.size() ? verdict_names[index] : "unknown";
}

std::optional<Verdict> verdict_from_string(std::string_view text) {
  for (const auto verdict : all_verdicts) {
    if (to_string(verdict) == text) return verdict;
  }
  return std::nullopt;
}

Verdict decide(std::span<const RankOutcome> ranks) {
  std::array<std::size_t, 8> count{};
  std::size_t vacuous = 0;
  for (const auto& rank : ranks) {
    ++count[static_cast<std::size_t>(rank.outcome)];
    if (rank.outcome == Outcome::passed && rank.assertions == 0) ++vacuous;
  }
  const auto any = [&](Outcome outcome) { return count[static_cast<std::size_t>(outcome)] > 0; };
  const bool ended_itself = any(Outcome::passed) || any(Outcome::failed) || any(Outcome::error);
  const bool began = ended_itself || any(Outcome::released);

  if (any(Outcome::crashed)) return Verdict::crashed;
  if (any(Outcome::hung)) return Verdict::hung;
  if ((any(Outcome::missing) && began) || (any(Outcome::skipped) && ended_itself)) return Verdict::disagreed;
  if (any(Outcome::failed)) return Verdict::failed;
  if (any(Outcome::error) || vacuous > 0 || (any(Outcome::released) && !any(Outcome::skipped))) return Verdict::error;
  if (any(Outcome::missing) || ranks.empty()) return Verdict::not_run;
  if (any(Outcome::skipped)) return Verdict::skipped;
  return Verdict::passed;
}

}  // namespace shardproof::reports
