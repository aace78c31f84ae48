#include "suites/checks/soundness.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "harness/base/digest.hpp"
#include "suites/checks/clauses.hpp"
#include "suites/checks/race_parts.hpp"
#include "suites/checks/said.hpp"

namespace shardproof::suites {

using base::digest;

namespace {

struct Count {
  CollectiveKind kind;
  std::string_view what;
  std::size_t done, asked;
};

std::array<Count, 3> counts(const Communication& done, const Communication& asked) {
  using enum CollectiveKind;
  return {Count{all_gather, "all-gathers", done.all_gathers, asked.all_gathers},
          Count{reduce_scatter, "reduce-scatters", done.reduce_scatters, asked.reduce_scatters},
          Count{all_reduce, "all-reduces", done.all_reduces, asked.all_reduces}};
}

struct CountJudge {
  Finding finding;
  std::string_view clause;  ///< such a difference breaks this clause in every case
};

CountJudge judge_of(const SoundnessClauses& clauses, const Count& count) {
  if (count.done < count.asked) return {Finding::missing_collective, clauses.communicates};
  if (count.kind == CollectiveKind::all_gather) return {Finding::extra_gather, clauses.no_other_gather};
  return {Finding::extra_reduction, clauses.no_other_reduction};
}

// Judges by the case's clauses about such a difference, or by the clause of the kind.
ClauseScope judging_count(const Rank& rank, const Kind& kind, const Count& count) {
  const CountJudge judge = judge_of(kind.clauses(), count);
  std::vector<std::string> clauses = asking_about(rank, judge.finding);
  if (clauses.empty()) clauses.emplace_back(judge.clause);
  return rank.under(std::move(clauses));
}

void check_equal(const Rank& rank, const Kind& kind, const Iteration& iteration, const Count& count) {
  const auto judged = judging_count(rank, kind, count);
  check_said(count.done == count.asked, fmt::format("iteration {} issues {} {}, but the plan asks for {}",
                                                    iteration.index(), count.done, count.what, count.asked));
}

void check_count(const std::string& where, const std::vector<fact::Collective>& all, CollectiveKind kind,
                 std::size_t expected) {
  std::vector<std::string> groups;
  for (const fact::Collective& collective : all) {
    if (collective.kind == kind) groups.push_back(fmt::format("\"{}\"", collective.tag));
  }
  const std::string of = groups.empty() ? "" : fmt::format(", of {}", fmt::join(groups, ", "));
  check_said(groups.size() == expected, fmt::format("{}: {} collectives of the kind {}{}; {} expected", where,
                                                    groups.size(), to_string(kind), of, expected));
}

}  // namespace

std::vector<Communication> planned(const Scenario& scenario, int world) {
  return kind_of(scenario.plan).planned(scenario, world);
}

void check_plan_is_communicated(Rank& rank, const Run& run) {
  const std::vector<Communication> least = planned(run.scenario(), rank.world().size());
  const Kind& kind = kind_of(run.scenario().plan);
  for (const Iteration& iteration : run.iterations()) {
    const Communication asked = least.at(static_cast<std::size_t>(iteration.index()));
    for (const Count& count : counts(issued(kind, iteration), asked)) {
      // The plan requires none of these collectives, so any number would pass.
      if (count.asked == 0) continue;
      const auto judged = judging_count(rank, kind, count);
      check_said(count.done >= count.asked, fmt::format("iteration {} issues {} {}, but the plan asks for at least {}",
                                                        iteration.index(), count.done, count.what, count.asked));
    }
  }
}

void check_nothing_else_is_communicated(Rank& rank, const Run& run) {
  const std::vector<Communication> plan = planned(run.scenario(), rank.world().size());
  const Kind& kind = kind_of(run.scenario().plan);
  Communication inside;
  for (const Iteration& iteration : run.iterations()) {
    const Communication asked = plan.at(static_cast<std::size_t>(iteration.index()));
    const Communication done = issued(kind, iteration);
    for (const Count& count : counts(done, asked)) check_equal(rank, kind, iteration, count);
    inside.all_gathers += done.all_gathers;
    inside.reduce_scatters += done.reduce_scatters;
    inside.all_reduces += done.all_reduces;
  }
  for (const Count& count : counts(issued(kind, run), inside)) {
    const auto judged = judging_count(rank, kind, count);
    check_said(count.done == count.asked, fmt::format("{} {} are outside the iterations, which issue {}",
                                                      count.done - count.asked, count.what, count.asked));
  }
}

void check_reductions(Rank& rank, const Run& run) {
  const std::vector<Communication> plan = planned(run.scenario(), rank.world().size());
  const Kind& kind = kind_of(run.scenario().plan);
  for (const Iteration& iteration : run.iterations()) {
    for (const Count& count : counts(issued(kind, iteration), plan.at(static_cast<std::size_t>(iteration.index()))))
      if (count.kind != CollectiveKind::all_gather) check_equal(rank, kind, iteration, count);
  }
}

void check_all_in_iterations(const Run& run, CollectiveKind kind) {
  std::size_t inside = 0;
  for (const Iteration& iteration : run.iterations()) inside += iteration.count(kind);
  check_said(run.count(kind) == inside, fmt::format("{} collectives of the kind {} are outside the iterations",
                                                    run.count(kind) - inside, to_string(kind)));
}

void check_count(const Iteration& iteration, CollectiveKind kind, std::size_t expected) {
  check_count(fmt::format("iteration {}", iteration.index()), iteration.collectives(), kind, expected);
}

void check_count(const Iteration& iteration, CollectiveKind kind, ActionKind call, std::size_t expected) {
  check_count(fmt::format("{} of iteration {}", to_string(call), iteration.index()), iteration.collectives(call), kind,
              expected);
}

std::vector<Iteration> steady_iterations(const Run& run) {
  std::vector<Iteration> all = run.iterations();
  REQUIRE(all.size() >= 3);
  return all;
}

void check_same_order(Rank& rank, const Run& run) {
  const auto judged = judging(rank, kind_of(run.scenario().plan).clauses().same_order, Finding::order);
  std::uint64_t so_far = digest("");
  for (const Fact& fact : run.trace().facts) {
    const auto* collective = std::get_if<fact::Collective>(&fact);
    if (collective == nullptr) continue;
    so_far = digest(to_string(collective->kind), so_far);
    so_far = digest(collective->tag, so_far);
    so_far = digest(std::to_string(collective->group.size()), so_far);
  }
  Tensor mine = Tensor::host(DType::i64, {1});
  mine.values<std::int64_t>()[0] = static_cast<std::int64_t>(so_far);
  const Tensor all = rank.world().all_gather(mine);
  for (int other = 0; const std::int64_t digest_of_other : all.values<std::int64_t>()) {
    check_said(static_cast<std::uint64_t>(digest_of_other) == so_far,
               fmt::format("ranks {} and {} issue different collectives, or issue them in different orders", other,
                           rank.index()));
    ++other;
  }
}

void check_nothing_gathered_twice(const Rank& rank, const Run& run) {
  const Kind& kind = kind_of(run.scenario().plan);
  const auto judged = judging(rank, kind.clauses().nothing_twice, Finding::repetition);
  kind.check_nothing_gathered_twice(run);
}

void check_nothing_is_left(const Rank& rank, const Run& run, int iteration, int backward) {
  const Kind& kind = kind_of(run.scenario().plan);
  const auto judged = judging(rank, kind.clauses().nothing_left, Finding::memory);
  kind.check_nothing_is_left(run, iteration, backward);
}

void check_memory(Rank& rank, const Run& run) {
  const Kind& kind = kind_of(run.scenario().plan);
  {
    const auto judged = judging(rank, kind.clauses().nothing_left, Finding::memory);
    kind.check_memory(run, rank.world().size(), MemoryCheck::nothing_left);
  }
  const auto judged = judging(rank, kind.clauses().whole_after_forward, Finding::memory);
  kind.check_memory(run, rank.world().size(), MemoryCheck::whole_after_forward);
}

void check_freed_memory(const Rank& rank, const Run& run) {
  const auto judged = judging(rank, kind_of(run.scenario().plan).clauses().freed_memory, Finding::memory);
  CHECK(run.left_alive() == 0);
}

void check_sound(Rank& rank, const Run& run) {
  check_no_race(rank, run);
  check_same_order(rank, run);
  check_nothing_gathered_twice(rank, run);
}

std::size_t host_waits(const Iteration& iteration) {
  return static_cast<std::size_t>(std::ranges::count_if(iteration.facts(), [](const Fact& fact) {
    return std::holds_alternative<fact::EventSynchronized>(fact) ||
           std::holds_alternative<fact::StreamSynchronized>(fact);
  }));
}

void check_no_race(const Rank& rank, const Run& run) {
  const Kind& kind = kind_of(run.scenario().plan);
  // One missing wait makes many races. The first of them shows the wait.
  struct Cause {
    std::string_view clause;
    std::string missing;
    const trace::Race* first;
    std::size_t races;
  };
  std::vector<Cause> causes;
  const std::vector<trace::Race> races = run.races();
  for (const trace::Race& race : races) {
    const std::string_view clause = kind.ordering_clause(run, race);
    const std::string missing = trace::missing(race);
    const auto known = std::ranges::find_if(
        causes, [&](const Cause& cause) { return cause.clause == clause && cause.missing == missing; });
    if (known == causes.end()) {
      causes.push_back({.clause = clause, .missing = missing, .first = &race, .races = 1});
      continue;
    }
    ++known->races;
    // A reader recognizes the optimizer's step better than a fill before the first iteration.
    if (is_after_fill(run.trace(), *known->first) && !is_after_fill(run.trace(), race)) known->first = &race;
  }
  // A release without a wait often results from a wait that other work lacks, so races about releases come last.
  std::ranges::stable_partition(causes, [](const Cause& cause) { return !is_about_release(*cause.first); });
  for (const Cause& cause : causes) {
    const auto judged = judging(rank, cause.clause, Finding::race);
    INFO("races that this wait would order: " << cause.races);
    FAIL_CHECK(trace::describe(*cause.first));
  }
  if (races.empty()) SUCCEED("no race");
}

}  // namespace shardproof::suites
