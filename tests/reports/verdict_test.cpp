#include "reports/merge/outcome_rules.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <vector>

namespace shardproof::reports {
namespace {

constexpr protocol::Outcome outcomes[] = {
    protocol::Outcome::passed,  protocol::Outcome::failed, protocol::Outcome::error,   protocol::Outcome::released,
    protocol::Outcome::skipped, protocol::Outcome::hung,   protocol::Outcome::crashed, protocol::Outcome::missing};

/// A rank's possible contributions: the outcomes, and a pass that asserted nothing.
std::vector<RankOutcome> contributions() {
  std::vector<RankOutcome> all{{protocol::Outcome::passed, 0}};
  for (const auto outcome : outcomes) all.push_back({outcome, 2});
  return all;
}

/// The verdict said the other way round: for each verdict, which sets of words lead to it. `vacuous` is a pass without
/// assertions.
Verdict expected(const std::vector<RankOutcome>& ranks) {
  std::set<std::string> words;
  for (const auto& rank : ranks)
    words.insert(rank.outcome == protocol::Outcome::passed && rank.assertions == 0
                     ? "vacuous"
                     : std::string(protocol::to_string(rank.outcome)));
  const auto only = [&](const std::set<std::string>& allowed) {
    return std::includes(allowed.begin(), allowed.end(), words.begin(), words.end());
  };
  if (words.empty()) return Verdict::not_run;
  if (words == std::set<std::string>{"passed"}) return Verdict::passed;
  if (words.contains("crashed")) return Verdict::crashed;
  if (words.contains("hung")) return Verdict::hung;
  if (only({"missing", "skipped"}) && words.contains("missing")) return Verdict::not_run;
  if (words.contains("missing")) return Verdict::disagreed;
  if (words.contains("skipped")) return only({"skipped", "released"}) ? Verdict::skipped : Verdict::disagreed;
  return words.contains("failed") ? Verdict::failed : Verdict::error;
}

/// Calls `visit` with every sequence of up to `longest` contributions: more than all multisets, so order is covered
/// too.
template <class Visit>
void every_sequence(std::vector<RankOutcome>& ranks, std::size_t longest, const Visit& visit) {
  visit(ranks);
  if (ranks.size() == longest) return;
  for (const auto& next : contributions()) {
    ranks.push_back(next);
    every_sequence(ranks, longest, visit);
    ranks.pop_back();
  }
}

std::string words(const std::vector<RankOutcome>& ranks) {
  std::string text;
  for (const auto& rank : ranks)
    text += std::string(protocol::to_string(rank.outcome)) + (rank.assertions == 0 ? "(0) " : " ");
  return text;
}

TEST_CASE("the verdict of every combination of up to four ranks") {
  std::vector<RankOutcome> ranks;
  std::size_t combinations = 0;
  every_sequence(ranks, 4, [&](const std::vector<RankOutcome>& all) {
    ++combinations;
    if (decide(all) == expected(all)) return;
    FAIL(words(all) << "is " << to_string(decide(all)) << ", expected " << to_string(expected(all)));
  });
  CHECK(combinations == 1 + 9 + 81 + 729 + 6561);
}

TEST_CASE("every combination of ranks obeys the rules of verdicts") {
  std::vector<RankOutcome> ranks;
  every_sequence(ranks, 4, [&](const std::vector<RankOutcome>& all) {
    const auto verdict = decide(all);
    const auto has = [&](protocol::Outcome outcome) {
      return std::any_of(all.begin(), all.end(), [&](const auto& rank) { return rank.outcome == outcome; });
    };
    const bool all_pass = !all.empty() && std::all_of(all.begin(), all.end(), [](const auto& rank) {
      return rank.outcome == protocol::Outcome::passed && rank.assertions > 0;
    });
    bool holds = (verdict == Verdict::passed) == all_pass;
    // One more rank without a pass of its own never makes a verdict weaker than it would be without a pass.
    holds = holds && (!has(protocol::Outcome::failed) || verdict >= Verdict::failed);
    holds = holds && (!has(protocol::Outcome::error) || verdict >= Verdict::error);
    holds = holds && (verdict != Verdict::skipped || has(protocol::Outcome::skipped));
    // That one failed and another passed is no disagreement.
    const bool only_pass_and_fail = std::all_of(all.begin(), all.end(), [](const auto& r) {
      return r.outcome == protocol::Outcome::passed || r.outcome == protocol::Outcome::failed ||
             r.outcome == protocol::Outcome::error;
    });
    holds = holds && !(only_pass_and_fail && verdict == Verdict::disagreed);
    auto backwards = all;
    std::reverse(backwards.begin(), backwards.end());
    holds = holds && decide(backwards) == verdict;
    if (!holds) FAIL(words(all) << "is " << to_string(verdict));
  });
}

TEST_CASE("combinations worth a name") {
  const RankOutcome pass{protocol::Outcome::passed, 1}, vacuous{protocol::Outcome::passed, 0},
      fail{protocol::Outcome::failed, 1}, released{protocol::Outcome::released, 1}, skip{protocol::Outcome::skipped, 0},
      missing{protocol::Outcome::missing, 0}, crash{protocol::Outcome::crashed, 0}, hang{protocol::Outcome::hung, 0},
      error{protocol::Outcome::error, 0};
  CHECK(decide({}) == Verdict::not_run);
  CHECK(decide(std::vector{pass, pass}) == Verdict::passed);
  CHECK(decide(std::vector{pass, vacuous}) == Verdict::error);
  CHECK(decide(std::vector{pass, fail}) == Verdict::failed);
  CHECK(decide(std::vector{released, fail}) == Verdict::failed);
  CHECK(decide(std::vector{error, fail}) == Verdict::failed);
  CHECK(decide(std::vector{released, released}) == Verdict::error);
  CHECK(decide(std::vector{released, pass}) == Verdict::error);
  CHECK(decide(std::vector{skip, skip}) == Verdict::skipped);
  CHECK(decide(std::vector{skip, released}) == Verdict::skipped);
  CHECK(decide(std::vector{skip, pass}) == Verdict::disagreed);
  CHECK(decide(std::vector{skip, fail}) == Verdict::disagreed);
  CHECK(decide(std::vector{missing, pass}) == Verdict::disagreed);
  CHECK(decide(std::vector{missing, released}) == Verdict::disagreed);
  CHECK(decide(std::vector{missing, skip}) == Verdict::not_run);
  CHECK(decide(std::vector{missing, missing}) == Verdict::not_run);
  CHECK(decide(std::vector{hang, crash}) == Verdict::crashed);
  CHECK(decide(std::vector{hang, missing, skip}) == Verdict::hung);
}

TEST_CASE("every verdict has its own word") {
  for (const auto verdict : all_verdicts) CHECK(verdict_from_string(to_string(verdict)) == verdict);
  CHECK_FALSE(verdict_from_string("PASSED").has_value());
  CHECK(is_bad(Verdict::not_run));
  CHECK_FALSE(is_bad(Verdict::skipped));
}

}  // namespace
}  // namespace shardproof::reports
