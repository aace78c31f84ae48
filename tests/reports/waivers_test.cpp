// Tests the verdicts that waivers excuse, those that they never excuse, and the findings about waivers.
#include "reports/model/waivers.hpp"

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "reports/export/summary.hpp"
#include "reports/model/findings.hpp"
#include "tests/reports/streams.hpp"
#include "tests/rounds.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;
using How = protocol::Ending::How;
using Names = std::vector<std::string>;

constexpr char today[] = "2030-06-15T12:00:00Z";

Waiver waiver(const std::string& pattern, Verdict verdict = Verdict::failed) {
  return {.pattern = pattern,
          .verdict = verdict,
          .when = {},
          .reason = "known",
          .link = "https://tracker.example/1",
          .owner = "ada",
          .expires = "2030-06-15"};
}

/// One world of two ranks on shm and sim, with cases of these names and verdicts, in order of name.
Report report_of(const std::vector<std::pair<std::string, Verdict>>& cases, std::vector<Waiver> waivers) {
  Report report;
  report.head.started = today;
  report.head.subject = "right";
  report.head.fault = "late";
  report.head.waivers = std::move(waivers);
  report.worlds.push_back({2, "shm", "sim", {}, {}, {}});
  for (const auto& [name, verdict] : cases) {
    auto& result = report.cases.emplace_back();
    result.info = case_info(name, 2);
    result.verdict = verdict;
    result.ranks.resize(2);
    for (RankOutcome& rank : result.ranks) {
      if (verdict == Verdict::passed) rank = {protocol::Outcome::passed, 1};
      if (verdict == Verdict::skipped) rank.outcome = protocol::Outcome::skipped;
    }
    if (report.cases.size() > 1 && report.cases[report.cases.size() - 2].info.id == result.info.id)
      result.repetition = report.cases[report.cases.size() - 2].repetition + 1;
  }
  apply_waivers(report);
  return report;
}

WaiverState state_of(const std::vector<std::pair<std::string, Verdict>>& cases, const Waiver& waiver) {
  return waiver_uses(report_of(cases, {waiver})).at(0).state;
}

TEST_CASE("a run whose cases were all skipped for claims proves nothing") {
  Report report = report_of({{"a/one", Verdict::skipped}, {"a/two", Verdict::skipped}}, {});
  for (CaseResult& result : report.cases) {
    result.ranks[0].outcome = result.ranks[1].outcome = protocol::Outcome::skipped;
    result.reasons[0] = "subject right does not claim the engine kind fully_shard; it claims fully_shrad";
    result.info.engine = "fully_shard";
    result.unclaimed = true;
  }
  CHECK(findings(report) == Names{"all 2 cases were skipped, because subject right does not claim the engine kind "
                                  "fully_shard; it claims fully_shrad: this run proves nothing; correct the claims "
                                  "of the subject, or select other cases"});
  CHECK(exit_code(report) == over_budget);
  CHECK(only_skipped(report));
  report.head.demands.max_skips = 1;
  CHECK_FALSE(only_skipped(report));
  report.head.demands.max_skips.reset();
  report.head.unknown_kinds = {"fully_shrad"};
  CHECK_FALSE(only_skipped(report));
  CHECK(findings(report).at(1) ==
        "subject right claims the engine kind fully_shrad, which this worker does not know (closest is fully_shard): "
        "correct its claims");

  report.cases[1].verdict = Verdict::passed;
  CHECK(findings(report).size() == 1);
  report.head.unknown_kinds.clear();
  CHECK(findings(report).empty());
  CHECK(exit_code(report) == all_passed);
  CHECK_FALSE(only_skipped(report));
  report.cases[1].verdict = Verdict::skipped;
  report.cases[1].unclaimed = false;  // a rank of it asked
  CHECK(findings(report).empty());
  CHECK(only_skipped(report));
}

TEST_CASE("a waiver excuses its verdict of the cases that it names, and changes none") {
  const auto report =
      report_of({{"a/crashed", Verdict::crashed}, {"a/failed", Verdict::failed}, {"b/failed", Verdict::failed}},
                {waiver("a/*"), waiver("*", Verdict::error)});
  CHECK(report.cases[0].waiver == -1);  // of another verdict
  CHECK(report.cases[1].waiver == 0);
  CHECK(report.cases[1].verdict == Verdict::failed);
  CHECK(report.cases[2].waiver == -1);
  CHECK(report.waived() == 1);
  CHECK(report.counts().at(Verdict::failed) == 2);
  CHECK(waiver_uses(report)[0].waived == Names{"a/failed[W=2]"});
}

TEST_CASE("missing evidence is not excused, even by a waiver that no file can hold") {
  for (const auto verdict : {Verdict::disagreed, Verdict::not_run, Verdict::skipped, Verdict::passed}) {
    CAPTURE(to_string(verdict));
    CHECK(report_of({{"a/one", verdict}}, {waiver("*", verdict)}).cases[0].waiver == -1);
  }
}

TEST_CASE("each condition keeps a waiver from what is elsewhere") {
  const std::vector<std::pair<std::string, Verdict>> failed{{"a/one", Verdict::failed}};
  const auto with = [](auto change) {
    auto changed = waiver("a/one");
    change(changed.when);
    return changed;
  };
  for (const auto& here : {with([](auto& w) { w.fabric = "shm"; }), with([](auto& w) { w.device = "sim"; }),
                           with([](auto& w) { w.subject = "right"; }), with([](auto& w) { w.fault = "late"; }),
                           with([](auto& w) { w.world_size = 2; })}) {
    CHECK(state_of(failed, here) == WaiverState::used);
  }
  for (const auto& elsewhere : {with([](auto& w) { w.fabric = "nccl"; }), with([](auto& w) { w.device = "cuda"; }),
                                with([](auto& w) { w.subject = "wrong"; }), with([](auto& w) { w.fault = "early"; })}) {
    CHECK(state_of(failed, elsewhere) == WaiverState::idle);
    CHECK(exit_code(report_of(failed, {elsewhere})) == case_failed);
  }
  CHECK(state_of(failed, with([](auto& w) { w.world_size = 3; })) == WaiverState::unused);
}

TEST_CASE("a pattern is a glob over ids, with or without their parameters") {
  for (const char* pattern : {"a/one[W=2]", "a/one", "a/o*", "*one[W=?]", "*"})
    CHECK(state_of({{"a/one", Verdict::failed}}, waiver(pattern)) == WaiverState::used);
  for (const char* pattern : {"a", "a/on", "a/one[W=3]", "[slow]", "one"})
    CHECK(state_of({{"a/one", Verdict::failed}}, waiver(pattern)) == WaiverState::unused);
}

TEST_CASE("of several waivers the first is named, and all are used") {
  const auto report = report_of({{"a/one", Verdict::failed}}, {waiver("b"), waiver("a/*"), waiver("a/one")});
  CHECK(report.cases[0].waiver == 1);
  const auto uses = waiver_uses(report);
  CHECK(uses[1].state == WaiverState::used);
  CHECK(uses[2].state == WaiverState::used);
}

TEST_CASE("a waiver holds to the end of its last day; on an unknown day it does not") {
  const std::vector<std::pair<std::string, Verdict>> failed{{"a/one", Verdict::failed}};
  auto old = waiver("a/one");
  CHECK(state_of(failed, old) == WaiverState::used);
  old.expires = "2030-06-14";
  CHECK(state_of(failed, old) == WaiverState::expired);
  auto report = report_of(failed, {old});
  CHECK(report.cases[0].waiver == -1);
  CHECK(exit_code(report) == case_failed);
  CHECK(findings(report) ==
        Names{"waivers[0] a/one (failed, ada): expired on 2030-06-14: it excuses nothing until ada renews it"});
  CHECK(exit_code(report_of({{"a/one", Verdict::passed}}, {old})) == over_budget);

  for (const char* unknown : {"", "yesterday", "2030-6-15"}) {
    Report undated = report_of(failed, {});
    undated.head.started = unknown;
    undated.head.waivers = {waiver("a/one")};
    apply_waivers(undated);
    CHECK(undated.cases[0].waiver == -1);
    CHECK(waiver_uses(undated)[0].state == WaiverState::expired);
  }
}

TEST_CASE("a pass that a waiver did not expect is a finding, if it is one each time") {
  using V = Verdict;
  const auto report = report_of({{"a/one", V::passed}, {"a/two", V::failed}}, {waiver("a/*")});
  CHECK(waiver_uses(report)[0].state == WaiverState::unexpected_pass);
  CHECK(waiver_uses(report)[0].passed == Names{"a/one[W=2]"});
  CHECK(waiver_uses(report)[0].waived == Names{"a/two[W=2]"});
  CHECK(findings(report) == Names{"waivers[0] a/* (failed, ada): unexpected pass of a/one[W=2]: remove the waiver, or "
                                  "make its pattern narrower"});
  CHECK(exit_code(report) == over_budget);

  CHECK(state_of({{"a/one", V::passed}, {"a/one", V::passed}}, waiver("a/one")) == WaiverState::unexpected_pass);
  CHECK(state_of({{"a/one", V::passed}, {"a/one", V::failed}}, waiver("a/one")) == WaiverState::used);
  CHECK(state_of({{"a/one", V::passed}, {"a/one", V::skipped}}, waiver("a/one")) == WaiverState::idle);
  for (const auto other : {V::skipped, V::not_run, V::error, V::disagreed, V::hung, V::crashed})
    CHECK(state_of({{"a/one", other}}, waiver("a/one")) == WaiverState::idle);
}

TEST_CASE(
    "an attempt that a later one supersedes is neither waived nor required, but no pass was unexpected after it") {
  using V = Verdict;
  auto report = report_of({{"a/one", V::failed}, {"a/one", V::passed}}, {waiver("a/one")});
  report.cases[0].superseded = true;
  report.cases[1].attempt = 1;
  for (auto& result : report.cases) result.info.clauses = {"A-1"};
  report.head.demands = {.max_skips = std::nullopt, .max_waivers = 0, .require = {"A-1"}};
  CHECK(report.waived() == 0);
  CHECK(waiver_uses(report)[0].state == WaiverState::idle);
  CHECK(requirements(report)[0].cases == 1);
  CHECK(exit_code(report) == all_passed);
  report.cases[1].verdict = V::error;
  CHECK(exit_code(report) == case_failed);
}

TEST_CASE("a waiver without a case is reported only for a run of all cases") {
  auto report = report_of({{"a/one", Verdict::passed}}, {waiver("b/*")});
  CHECK(exit_code(report) == over_budget);
  CHECK(findings(report) == Names{"waivers[0] b/* (failed, ada): unused: it covers no case"});
  auto near = report_of({{"a/one", Verdict::passed}}, {waiver("a/on")});
  CHECK(findings(near) == Names{"waivers[0] a/on (failed, ada): unused: it covers no case; closest is 'a/one'"});
  report.head.partial = true;
  CHECK(exit_code(report) == all_passed);
  report.head.partial = false;
  report.head.outside_profile = 1;
  CHECK(exit_code(report) == all_passed);
}

TEST_CASE("waived cases do not decide the exit code, all others do") {
  using V = Verdict;
  for (const auto bad : {V::failed, V::error, V::hung, V::crashed}) {
    CAPTURE(to_string(bad));
    CHECK(exit_code(report_of({{"a/one", bad}, {"a/two", V::passed}}, {waiver("a/one", bad)})) == all_passed);
    CHECK(exit_code(report_of({{"a/one", bad}, {"a/two", V::failed}}, {waiver("a/one", bad)})) == case_failed);
    CHECK(exit_code(report_of({{"a/one", bad}, {"a/two", V::crashed}}, {waiver("a/one", bad)})) == crashed_or_hung);
    CHECK(exit_code(report_of({{"a/one", bad}, {"a/two", V::not_run}}, {waiver("*", bad)})) == evidence_unusable);
    CHECK(exit_code(report_of({{"a/one", bad}, {"a/two", V::disagreed}}, {waiver("*", bad)})) == evidence_unusable);
  }
  auto report = report_of({{"a/one", V::failed}, {"a/two", V::failed}}, {waiver("a/*")});
  report.head.demands.max_waivers = 2;
  CHECK(exit_code(report) == all_passed);
  report.head.demands.max_waivers = 1;
  CHECK(exit_code(report) == over_budget);
  CHECK(findings(report) == Names{"2 cases waived, at most 1 may be (--max-waivers)"});
}

/// Rank 1 dies in the second case; rank 0 is released and leaves, or ends with a code of its own.
WorldOnPaper death(const protocol::Ending& ending, int code_of_released = 0) {
  WorldOnPaper world(2, {"a/one", "a/two"});
  for (int rank = 0; rank < 2; ++rank) {
    world.begin(rank);
    world.pass(rank, 0);
    world.start(rank, 1);
  }
  world.end(0, 1, protocol::Outcome::released, "rank 1 died", 1);
  if (code_of_released == 0) world.finish(0);
  world.ending(0).code = code_of_released;
  world.ending(1) = ending;
  return world;
}

Report merged(const WorldOnPaper& world, std::vector<Waiver> waivers) {
  RunHead head;
  head.started = today;
  head.waivers = std::move(waivers);
  const WorldRecord one = world.record();
  return merge(std::move(head), std::span(&one, 1));
}

TEST_CASE("the death of a rank in a waived case is waived with it, and so is the leaving of those that it released") {
  for (const auto& ending :
       {protocol::Ending{1, How::signalled, SIGSEGV, 1, ""}, protocol::Ending{1, How::exited, 3, 1, ""},
        protocol::Ending{1, How::exited, 0, 1, ""}, protocol::Ending{1, How::overran, 0, 1, ""}}) {
    const auto verdict = ending.how == How::overran ? Verdict::hung : Verdict::crashed;
    for (const int code : {0, static_cast<int>(protocol::rank_released)}) {
      CAPTURE(protocol::to_string(ending.how), ending.code, code);
      CHECK(exit_code(merged(death(ending, code), {})) == crashed_or_hung);
      const auto report = merged(death(ending, code), {waiver("a/two", verdict)});
      CHECK(report.cases[1].verdict == verdict);
      CHECK(report.cases[1].waiver == 0);
      CHECK(exit_code(report) == all_passed);
      CHECK(exit_code(merged(death(ending, code), {waiver("a/one", verdict)})) == crashed_or_hung);
    }
  }
}

TEST_CASE("a death that belongs to no waived case is not waived") {
  // Rank 1 dies in the waived case, and rank 0 by a signal when it has left it.
  auto both = death({1, How::signalled, SIGKILL, 1, ""});
  both.ending(0) = {0, How::signalled, SIGSEGV, -1, ""};
  CHECK(exit_code(merged(both, {waiver("a/two", Verdict::crashed)})) == crashed_or_hung);
  // Nor is an exit that no release explains.
  CHECK(exit_code(merged(death({1, How::signalled, SIGKILL, 1, ""}, 7), {waiver("a/two", Verdict::crashed)})) ==
        crashed_or_hung);
  // In another world.
  const auto first = death({1, How::signalled, SIGKILL, 1, ""});
  WorldOnPaper second(2, {"b/one"});
  second.ending(1) = {1, How::signalled, SIGKILL, -1, ""};
  RunHead head;
  head.started = today;
  head.waivers = {waiver("a/two", Verdict::crashed)};
  const std::vector<WorldRecord> worlds{first.record(), second.record()};
  CHECK(exit_code(merge(head, worlds)) == crashed_or_hung);
}

TEST_CASE("worlds that were not tried after a waived death are missing evidence, not a lack of infrastructure") {
  const auto first = death({1, How::signalled, SIGKILL, 1, ""});
  WorldOnPaper second(1, {"b/one"});
  second.clear(0);
  second.ending(0) = {0, How::not_started, 0, -1, "a rank of an earlier world died"};
  RunHead head;
  head.started = today;
  head.waivers = {waiver("a/two", Verdict::crashed)};
  const std::vector<WorldRecord> worlds{first.record(), second.record()};
  CHECK(exit_code(merge(head, worlds)) == evidence_unusable);
}

TEST_CASE("a process that ended before it had left its world broke it, whatever its code") {
  WorldOnPaper world(2, {"a/one"});
  world.begin(1);
  world.ending(1) = {
      .rank = 1, .how = How::exited, .code = 0, .position = -1, .text = "", .last_words = "", .is_cause = true};
  CHECK(exit_code(world.merged()) == crashed_or_hung);
  world.ending(1).is_cause = false;
  CHECK(exit_code(world.merged()) == evidence_unusable);
}

TEST_CASE("a waived case is shown as one, with who answers for it, and never as a pass") {
  const auto report = merged(death({1, How::signalled, SIGKILL, 1, ""}), {waiver("a/two", Verdict::crashed)});
  CHECK(summary(report, {}) ==
        "WAIVED 1 crashed: known (https://tracker.example/1)\n"
        "  a/two[W=2]\n"
        "  by ada until 2030-06-15; to see it: shardproof run 'a/two[W=2]' --seed 0\n"
        "world 0: 2 ranks of shm on sim, 2 cases: 1 passed, 1 waived\n"
        "2 cases in 1 world: 1 passed, 1 waived\n");
  TextStyle verbose;
  verbose.verbose = true;
  CHECK_THAT(summary(report, verbose), ContainsSubstring("WAIVED CRASH a/two[W=2]  12 ms\n") &&
                                           ContainsSubstring("  rank 1 died by signal 9 (SIGKILL)") &&
                                           ContainsSubstring("  again: "));
}

TEST_CASE("a required clause needs a case that passed") {
  auto report = report_of({{"a/one", Verdict::failed}, {"a/two", Verdict::skipped}, {"b/one", Verdict::passed}},
                          {waiver("a/one")});
  report.cases[0].info.clauses = {"A-1", "A-2"};
  report.cases[1].info.clauses = {"A-1"};
  report.cases[2].info.clauses = {"B-1"};
  report.head.demands.require = {"B-1"};
  CHECK(exit_code(report) == all_passed);
  report.head.demands.require = {"A-1", "B-1", "A-2", "C-1", "A-1"};
  CHECK(exit_code(report) == over_budget);
  CHECK(findings(report) == Names{"required clause A-1: none of its 2 cases passed",
                                  "required clause A-2: its only case did not pass",
                                  "required clause C-1: no case of this run checks it"});
  const auto all = requirements(report);
  REQUIRE(all.size() == 4);
  CHECK(all[0].cases == 2);
  CHECK(all[1].passed == 1);
}

TEST_CASE("no waivers, whatever they are, turn a verdict into a pass or excuse missing evidence") {
  const std::uint64_t seed = Catch::getSeed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto one_of = [&](const auto& items) {
    return *std::next(std::begin(items), static_cast<std::ptrdiff_t>(below(std::size(items))));
  };
  const Names names{"a/one", "a/two", "b/one"};
  const Names patterns{"*", "a/*", "a/one", "?/one[W=2]", "nothing"};
  const Names days{"2030-06-14", "2030-06-15", "2999-12-31"};
  for (int round = 0; round < shardproof::testing::rounds(2000); ++round) {
    std::vector<std::pair<std::string, Verdict>> cases(1 + below(6));
    for (auto& [name, verdict] : cases) {
      name = one_of(names);
      verdict = one_of(all_verdicts);
    }
    std::sort(cases.begin(), cases.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Waiver> waivers(below(5));
    for (auto& w : waivers) {
      w = waiver(one_of(patterns),
                 one_of(std::array{Verdict::failed, Verdict::error, Verdict::hung, Verdict::crashed}));
      w.expires = one_of(days);
      if (below(4) == 0) w.when.world_size = static_cast<int>(1 + below(2));
    }
    const auto without = report_of(cases, {});
    const auto report = report_of(cases, waivers);
    if (report.counts() != without.counts()) FAIL("counts have changed");
    for (std::size_t i = 0; i < report.cases.size(); ++i) {
      const auto& result = report.cases[i];
      if (result.verdict != without.cases[i].verdict) FAIL("a verdict has changed");
      if (result.waiver >= 0 && !is_waivable(result.verdict)) FAIL("what cannot be waived is");
    }
    const auto json = to_json(report);
    for (std::size_t i = 0; i < report.cases.size(); ++i)
      if (json["cases"][i]["verdict"] != to_string(without.cases[i].verdict)) FAIL("the report says another verdict");
    if (to_json(from_json(json)) != json) FAIL("the report does not survive JSON");
    const auto& counts = report.counts();
    const bool lacks_evidence = counts.at(Verdict::disagreed) + counts.at(Verdict::not_run) > 0;
    const auto code = exit_code(report);
    if (lacks_evidence && code != evidence_unusable && code != crashed_or_hung) FAIL("missing evidence is excused");
    std::size_t bad = 0;
    for (const auto& result : report.cases) bad += is_bad(result.verdict) ? 1U : 0U;
    if (code == all_passed && bad != report.waived()) FAIL("an unwaived bad verdict is excused");
  }
}

}  // namespace
}  // namespace shardproof::reports
