#include "harness/runner/case_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace shardproof::runner {

using protocol::Outcome;

namespace {

constexpr unsigned outcome_bits = 8, flag_bits = 4;
constexpr std::uint64_t defective = 1U << outcome_bits, vacuous = 2U << outcome_bits,
                        changed_process = 4U << outcome_bits, early = 8U << outcome_bits;

bool went_wrong(const BodyEnd& end) { return end.own == Outcome::failed || end.own == Outcome::error; }

// The first rank whose end satisfies the predicate; -1 for none.
template <class Predicate>
int first(std::span<const BodyEnd> all, Predicate predicate) {
  const auto found = std::ranges::find_if(all, predicate);
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

std::string unequal_calls(std::span<const BodyEnd> all) {
  const int other = first(all, [&](const BodyEnd& end) { return end.world_calls != all.front().world_calls; });
  if (other < 0) return {};
  return fmt::format("the ranks made different numbers of calls on the world group: rank 0 made {}, rank {} made {}",
                     all.front().world_calls, other, all[static_cast<std::size_t>(other)].world_calls);
}

}  // namespace

control::Ballot to_ballot(const BodyEnd& end) {
  const std::uint64_t flags = (end.defect.empty() ? 0 : defective) | (end.checked_nothing ? vacuous : 0) |
                              (end.has_changed_process ? changed_process : 0) | (end.left_call ? early : 0);
  return {.value = end.world_calls << (outcome_bits + flag_bits) | flags | static_cast<std::uint64_t>(end.own),
          .text = end.defect.empty() ? end.reason : end.defect};
}

BodyEnd from_ballot(const control::Ballot& ballot) {
  return {.own = static_cast<Outcome>(ballot.value & ((1U << outcome_bits) - 1)),
          .reason = ballot.text,
          .world_calls = ballot.value >> (outcome_bits + flag_bits),
          .defect = (ballot.value & defective) != 0 ? ballot.text : std::string(),
          .checked_nothing = (ballot.value & vacuous) != 0,
          .left_call = (ballot.value & early) != 0,
          .has_changed_process = (ballot.value & changed_process) != 0};
}

namespace {

CaseEnd without_defect(int rank, const BodyEnd& mine, std::span<const BodyEnd> all,
                       const std::optional<control::Abort>& aborted) {
  if (went_wrong(mine)) return {.outcome = mine.own, .reason = mine.reason};

  const int wrong = first(all, went_wrong);
  const int asker = first(all, [](const BodyEnd& end) { return end.own == Outcome::skipped; });
  if (asker >= 0 && wrong < 0) {
    const std::string& reason = asker == rank ? mine.reason : all[static_cast<std::size_t>(asker)].reason;
    return {.outcome = Outcome::skipped, .reason = reason, .culprit = asker};
  }
  if (asker >= 0 || (aborted && aborted->reason == control::AbortReason::skipped)) {
    // The rank that asked may itself have gone wrong. Then its ballot shows the failure instead of the skip.
    return {.outcome = Outcome::released,
            .reason = fmt::format("rank {} asked to skip the case, but rank {} went wrong",
                                  asker >= 0 ? asker : aborted->culprit, wrong),
            .culprit = wrong};
  }

  const std::string unequal = unequal_calls(all);
  if (aborted && aborted->reason != control::AbortReason::deadlock &&
      aborted->reason != control::AbortReason::disagreed) {
    return {.outcome = Outcome::released, .reason = aborted->text, .culprit = aborted->culprit};
  }
  // No rank caused this alone. Ranks that do not fit together are every rank's error, whichever rank noticed it first.
  if (aborted)
    return {.outcome = Outcome::error, .reason = unequal.empty() ? aborted->text : unequal + "; " + aborted->text};
  if (!unequal.empty()) return {.outcome = Outcome::error, .reason = unequal};
  if (mine.checked_nothing)
    return {.outcome = Outcome::error, .reason = "no assertion: a case that checks nothing proves nothing"};
  return {};
}

}  // namespace

CaseEnd conclude(int rank, const BodyEnd& mine, std::span<const BodyEnd> all,
                 const std::optional<control::Abort>& aborted) {
  CaseEnd end = without_defect(rank, mine, all, aborted);
  if (mine.defect.empty()) return end;
  if (end.outcome == Outcome::passed || end.outcome == Outcome::skipped) end = {.outcome = Outcome::error};
  end.reason += fmt::format("{}cannot go on: {}", end.reason.empty() ? "" : "; ", mine.defect);
  return end;
}

std::optional<Outcome> failure_of(std::span<const BodyEnd> all, const std::optional<control::Abort>& aborted) {
  std::optional<Outcome> failure;
  std::set<std::pair<Outcome, bool>> seen;  // ranks that ended alike have the same outcome
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!seen.emplace(all[rank].own, all[rank].checked_nothing).second) continue;
    const Outcome outcome = without_defect(static_cast<int>(rank), all[rank], all, aborted).outcome;
    if (outcome == Outcome::failed) return outcome;
    if (outcome == Outcome::error) failure = outcome;
  }
  return failure;
}

bool may_have_left_messages(std::span<const BodyEnd> all) {
  return first(all, [](const BodyEnd& end) { return end.left_call; }) >= 0;
}

bool is_end_by_case(std::span<const BodyEnd> all) {
  return first(all, [](const BodyEnd& end) { return end.has_changed_process; }) >= 0 &&
         first(all, [](const BodyEnd& end) { return !end.defect.empty() && !end.has_changed_process; }) < 0;
}

std::string reason_to_end_world(std::span<const BodyEnd> all) {
  const int rank = first(all, [](const BodyEnd& end) { return !end.defect.empty(); });
  return rank < 0 ? std::string()
                  : fmt::format("rank {} cannot go on: {}", rank, all[static_cast<std::size_t>(rank)].defect);
}

}  // namespace shardproof::runner
