#include "reports/merge/report_order.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace shardproof::reports {

void order_worlds(Report& report, std::span<const WorldPlace> places) {
  std::vector<std::size_t> order(places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const WorldPlace &first = places[a], &second = places[b];
    // In the worlds of one plan, the world with more cases left comes first.
    return std::tie(first.attempt, first.planned, second.left, first.first_case) <
           std::tie(second.attempt, second.planned, first.left, second.first_case);
  });
  int next = 0;  // the next number for a world without a folder
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].has_folder) next = std::max(next, report.worlds[i].number + 1);
  }
  std::vector<WorldResult> worlds;
  std::vector<int> place_of(order.size());
  for (const std::size_t old : order) {
    place_of[old] = static_cast<int>(worlds.size());
    worlds.push_back(std::move(report.worlds[old]));
    if (!places[old].has_folder) worlds.back().number = next++;
  }
  report.worlds = std::move(worlds);
  for (CaseResult& result : report.cases) result.world = place_of[static_cast<std::size_t>(result.world)];
  std::ranges::stable_sort(report.cases, {}, &CaseResult::world);
}

void order_cases(Report& report) {
  // A stable sort keeps the order of repetitions and attempts in worlds and plans.
  std::stable_sort(report.cases.begin(), report.cases.end(),
                   [](const auto& a, const auto& b) { return a.info.id < b.info.id; });
  std::size_t counts = 0;  // the attempt of this case that counts
  for (std::size_t i = 1; i < report.cases.size(); ++i) {
    CaseResult& before = report.cases[i - 1];
    CaseResult& result = report.cases[i];
    if (result.info.id != before.info.id) {
      counts = i;
    } else if (result.attempt > 0) {
      // An attempt that did not run says nothing. Then the attempt before it still counts.
      const bool has_run = result.verdict != Verdict::not_run;
      (has_run ? report.cases[counts] : result).superseded = true;
      if (has_run) counts = i;
    } else {
      result.repetition = before.repetition + 1;
    }
  }
}

}  // namespace shardproof::reports
