// Reports for tests of exporters: with retries, with hostile text in each field that a rank, a subject or a user
// writes, and with many failures.
#pragma once

#include <array>
#include <functional>
#include <random>
#include <string>
#include <string_view>

#include "tests/reports/sample_report.hpp"

namespace shardproof::reports::testing {

using namespace std::string_view_literals;

/// Each breaks a format that takes it as it is.
inline constexpr std::array hostile_texts{
    "]]><failure/>"sv,
    "<script>alert(1)</script>"sv,
    "</pre></details><h1>gone"sv,
    "a|b\\|c\\\\|d | e"sv,
    "`code` ``` ~~~"sv,
    "\n```\n# heading\n"sv,
    "| a | b |\n|---|---|\n"sv,
    "&amp; &#x0; &lt; \" ' >"sv,
    "\x00\x01\x08\x0b\x0c\r\x1b[31m\x7f"sv,
    "\u202egnp.exe \u2066x\u2069 \u200f\ufeff"sv,
    "\ufffe \uffff \U0010ffff"sv,
    "\xff\xfe \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82"sv,
    "@everyone https://example.org www.example.org :tada: #1 ![x](y) [z](javascript:0) *b* _i_ <!-- -->"sv,
    "  \t leading and trailing \t "sv,
    "\u2028\u2029\u0085\u00ad"sv};

/// A text of some hostile texts.
class HostileTexts {
 public:
  explicit HostileTexts(std::uint64_t seed) : random_(seed) {}
  std::string operator()() {
    std::string text = "t";
    for (auto parts = 1 + random_() % 3; parts > 0; --parts) text += hostile_texts.at(random_() % hostile_texts.size());
    return text;
  }

 private:
  std::mt19937_64 random_;
};

/// Puts hostile text everywhere where foreign text may be. The number of results and their verdicts stay.
inline void spoil(Report& report, HostileTexts hostile) {
  RunHead& head = report.head;
  for (std::string* const text : {&head.run_id, &head.started, &head.suite_version, &head.subject,
                                  &head.subject_version, &head.profile, &head.git_commit, &head.fault})
    *text = hostile();
  for (auto* const map : {&head.machine, &head.environment}) *map = {{hostile(), hostile()}, {"host", hostile()}};
  head.argv = {hostile(), hostile()};
  for (Waiver& waiver : head.waivers) waiver.reason = waiver.owner = waiver.link = waiver.pattern = hostile();
  for (WorldResult& world : report.worlds) {
    world.fabric = world.device = world.explanation = world.unfit_for_timing = hostile();
    world.defects = {hostile(), hostile()};
    for (protocol::Ending& ending : world.endings) ending.last_words = ending.text = hostile();
  }
  std::string id, spoiled;
  for (CaseResult& result : report.cases) {
    if (result.info.id != id) spoiled = hostile();  // all runs of a case have one id
    id = std::exchange(result.info.id, spoiled + result.info.id);
    protocol::CaseInfo& info = result.info;
    info.suite = info.suite + hostile();
    info.file = hostile();
    info.params[hostile()] = hostile();
    info.tags = info.clauses = result.notes = {hostile(), hostile()};
    for (auto& [rank, reason] : result.reasons) reason = hostile();
    for (Failure& failure : result.failures) {
      protocol::event::AssertionFailed& assertion = failure.assertion;
      assertion.file = assertion.expression = assertion.expansion = hostile();
      if (!assertion.macro.empty()) assertion.macro = hostile();
      assertion.messages = assertion.clauses = {hostile()};
    }
    result.measurements[hostile()] = {.value = 1, .unit = hostile()};
  }
}

inline Report hostile_report(std::uint64_t seed) {
  Report report = sample_report();
  spoil(report, HostileTexts(seed));
  return report;
}

inline void fail(CaseResult& result, const std::string& expansion) {
  result.verdict = Verdict::failed;
  result.failures = {{.rank = 1, .assertion = check_failed("loss == expected", expansion, 5)}};
  for (RankOutcome& rank : result.ranks) rank.outcome = protocol::Outcome::failed;
}

/// `mine/again` passed in its second attempt, and `mine/never` failed in both.
inline Report retried_report() {
  Report report = WorldOnPaper(2, {"mine/again", "mine/never"}).merged();
  std::vector<CaseResult> results;
  for (const CaseResult& passed : report.cases) {
    CaseResult first = passed, second = passed;
    fail(first, "1 == 2");
    first.superseded = true;
    second.attempt = 1;
    second.repetition = 1;
    if (passed.info.id.starts_with("mine/never")) fail(second, "3 == 2");
    results.push_back(first);
    results.push_back(second);
  }
  report.cases = std::move(results);
  return report;
}

/// Each of its cases fails for its own cause, with a long text.
inline Report failures_report(std::size_t count) {
  Report report = WorldOnPaper(2, {"mine/one"}).merged();
  const CaseResult one = report.cases.front();
  report.cases.clear();
  for (std::size_t i = 0; i < count; ++i) {
    CaseResult result = one;
    result.info.id = "mine/case_" + std::to_string(100'000 + i) + "[W=2]";
    fail(result, std::string(2'000, 'x'));
    result.failures.front().assertion.line = static_cast<int>(i);
    report.cases.push_back(std::move(result));
  }
  return report;
}

}  // namespace shardproof::reports::testing
