#include "reports/model/consistency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace shardproof::reports {

using protocol::Outcome;

namespace {

/// A case of a report, and its place for errors.
struct Place {
  const Report& report;
  std::size_t number = 0;

  const CaseResult& result() const { return report.cases[number]; }

  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    throw std::invalid_argument(
        fmt::format("cases[{}]: {}", number, fmt::format(text, std::forward<Arguments>(arguments)...)));
  }
};

void require_index(const Place& place, const char* name, int index, std::size_t count, std::string_view what) {
  if (index < 0 || !std::cmp_less(index, count))
    place.refuse("\"{}\": expected an index into {} {}, found {}", name, count, what, index);
}

void require_indices(const Place& place) {
  const CaseResult& result = place.result();
  const auto& waivers = place.report.head.waivers;
  require_index(place, "world", result.world, place.report.worlds.size(), "worlds");
  if (result.skipped_by >= 0) require_index(place, "skipped_by", result.skipped_by, result.ranks.size(), "ranks");
  for (std::size_t i = 0; i < result.failures.size(); ++i) {
    const int rank = result.failures[i].rank;
    if (std::cmp_greater_equal(rank, result.ranks.size()))
      place.refuse("failures[{}]: \"rank\": expected one of {} ranks, found {}", i, result.ranks.size(), rank);
  }
  if (result.waiver < 0) return;
  require_index(place, "waiver", result.waiver, waivers.size(), "waivers");
  const Verdict excused = waivers[static_cast<std::size_t>(result.waiver)].verdict;
  if (excused != result.verdict)
    place.refuse("\"waiver\": expected a waiver of {}, found one of {}", to_string(result.verdict), to_string(excused));
}

void require_ranks(const Place& place) {
  const CaseResult& result = place.result();
  const int size = place.report.worlds[static_cast<std::size_t>(result.world)].size;
  if (!std::cmp_equal(result.ranks.size(), size))
    place.refuse("\"ranks\": expected {}, as many as its world has, found {}", size, result.ranks.size());
}

/// A verdict that is not bad must not hide a rank that is.
void require_verdict(const Place& place) {
  const CaseResult& result = place.result();
  const auto refuse = [&](std::size_t rank, std::string_view what) {
    place.refuse("\"verdict\": {}, but rank {} {}", to_string(result.verdict), rank, what);
  };
  const bool passed = result.verdict == Verdict::passed, skipped = result.verdict == Verdict::skipped;
  if (passed && (result.ranks.empty() || std::cmp_less(result.ranks.size(), result.info.world_size)))
    place.refuse("\"verdict\": passed, but of its {} ranks only {} are in the report", result.info.world_size,
                 result.ranks.size());
  for (std::size_t rank = 0; rank < result.ranks.size() && (passed || skipped); ++rank) {
    const RankOutcome& one = result.ranks[rank];
    const bool fits =
        passed ? one.outcome == Outcome::passed : one.outcome == Outcome::skipped || one.outcome == Outcome::released;
    if (!fits) refuse(rank, fmt::format("reports \"{}\"", protocol::to_string(one.outcome)));
    if (passed && one.assertions == 0) refuse(rank, "reports no assertion");
  }
  if (passed && !result.failures.empty())
    refuse(static_cast<std::size_t>(result.failures.front().rank), "has a failure");
  if (result.left_out && result.verdict != Verdict::not_run)
    place.refuse("\"left_out\": expected only with the verdict not_run, found {}", to_string(result.verdict));
}

/// `runs`: all results of one id.
void require_once(const Report& report, std::span<const CaseResult> runs) {
  std::set<std::pair<int, std::uint64_t>> seen;
  for (const CaseResult& result : runs) {
    if (seen.emplace(result.attempt, result.repetition).second) continue;
    Place{report, static_cast<std::size_t>(&result - report.cases.data())}.refuse(
        "\"id\": {} is twice in the report, with the same repetition and attempt", result.info.id);
  }
}

/// `runs`: all results of one id. A result is superseded only if a later attempt counts
/// instead.
void require_one_that_counts(const Report& report, std::span<const CaseResult> runs) {
  const bool is_superseded = std::ranges::any_of(runs, &CaseResult::superseded);
  if (!is_superseded || !std::ranges::all_of(runs, &CaseResult::superseded)) return;
  const Place first{report, static_cast<std::size_t>(runs.data() - report.cases.data())};
  first.refuse("\"superseded\": true, but no later attempt of {} counts", first.result().info.id);
}

void require_order(const Place& place) {
  if (place.number == 0) return;
  const CaseResult& before = place.report.cases[place.number - 1];
  const CaseResult& result = place.result();
  if (result.info.id < before.info.id)
    place.refuse("\"id\": expected the cases in the order of their ids, found {} after {}", result.info.id,
                 before.info.id);
}

void require_endings(const Report& report) {
  for (std::size_t world = 0; world < report.worlds.size(); ++world) {
    std::set<int> seen;
    for (const protocol::Ending& ending : report.worlds[world].endings) {
      if (ending.rank < 0 || ending.rank >= report.worlds[world].size || !seen.insert(ending.rank).second)
        throw std::invalid_argument(
            fmt::format("worlds[{}]: \"endings\": expected one for each of {} ranks, found {} for rank {}", world,
                        report.worlds[world].size, seen.contains(ending.rank) ? "a second one" : "one", ending.rank));
    }
  }
}

}  // namespace

void require_consistent(const Report& report) {
  require_endings(report);
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    const Place place{report, i};
    require_indices(place);
    require_ranks(place);
    require_verdict(place);
    require_order(place);
  }
  for (std::span<const CaseResult> rest = report.cases; !rest.empty();) {
    const auto runs = repetitions(rest);
    require_once(report, runs);
    require_one_that_counts(report, runs);
    rest = rest.subspan(runs.size());
  }
}

}  // namespace shardproof::reports
