// Every row of the tables of outcome rules: facts to which it applies first, what it decides, and what would be decided
// without it. Also whether the documentation shows the same tables.
#include "reports/merge/outcome_rules.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

namespace shardproof::reports {
namespace {

template <class Fact, class Result>
const Rule<Fact, Result>* first_of(const std::vector<Rule<Fact, Result>>& rules, FactSet<Fact> facts) {
  const auto found = std::ranges::find_if(rules, [&](const auto& rule) { return rule.applies(facts); });
  return found == rules.end() ? nullptr : &*found;
}

/// `examples[i]` are the facts of a case to which rule `i` applies. Without the rule, the result has to be another.
template <class Fact, class Result>
void check_each_row(std::span<const Rule<Fact, Result>> rules, const std::vector<FactSet<Fact>>& examples) {
  REQUIRE(rules.size() == examples.size());
  for (std::size_t row = 0; row < rules.size(); ++row) {
    CAPTURE(rules[row].when);
    std::vector<Rule<Fact, Result>> others(rules.begin(), rules.end());
    const auto* first = first_of(others, examples[row]);
    REQUIRE(first == &others[row]);
    const Result result = first->result;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(row));
    const auto* next = first_of(others, examples[row]);
    CHECK((next == nullptr || next->result != result));
  }
}

TEST_CASE("each rule of streams is needed") {
  using enum StreamFact;
  check_each_row<StreamFact, std::optional<protocol::Outcome>>(stream_rules(), {{other_case, ended, passed},
                                                                                {repeated, ended, passed},
                                                                                {ended, released, failed_assertion},
                                                                                {ended, skipped, exception},
                                                                                {ended, passed, measured_twice},
                                                                                {ended, released, exception},
                                                                                {}});
}

TEST_CASE("each rule of endings is needed") {
  using enum EndingFact;
  check_each_row<EndingFact, std::optional<protocol::Outcome>>(ending_rules(),
                                                               {{overran, between_cases, unrecorded, a_rank_died},
                                                                {signalled, open, recorded, a_rank_died},
                                                                {exited, between_cases, unrecorded, code_0},
                                                                {exited, between_cases, unrecorded, a_rank_died},
                                                                {exited, between_cases, unrecorded, refusal, cause},
                                                                {exited, open, unrecorded, code_0, last_line_cut},
                                                                {exited, recorded, was_released, a_rank_died},
                                                                {exited, open, unrecorded, code_0},
                                                                {stopped, recorded, open_elsewhere},
                                                                {stopped, open, unrecorded},
                                                                {stopped, between_cases, unrecorded, another_began}});
  // The launcher recorded another case than the open one, or no rank began the case.
  CHECK_FALSE(outcome_by_ending({stopped, open}));
  CHECK_FALSE(outcome_by_ending({stopped, between_cases, unrecorded}));
  // This end of a process says nothing.
  CHECK_FALSE(outcome_by_ending({open, unrecorded}));
}

TEST_CASE("each rule of verdicts is needed") {
  using enum CaseFact;
  check_each_row<CaseFact, Verdict>(verdict_rules(), {{crashed, hung, missing},
                                                      {hung, passed, ranks_differ},
                                                      {passed, ranks_differ},
                                                      {interrupted, passed, missing},
                                                      {passed, missing},
                                                      {skipped, failed},
                                                      {passed, failed, error},
                                                      {passed, error},
                                                      {passed, released},
                                                      {missing, skipped},
                                                      {skipped, released},
                                                      {passed},
                                                      {}});
  CHECK(decide(std::vector<RankOutcome>{{protocol::Outcome::passed, 0}}) == Verdict::error);
}

TEST_CASE("a rule without a result leaves the outcome to the stream") {
  using enum StreamFact;
  CHECK(outcome_by_stream({ended, passed}, protocol::Outcome::passed) == protocol::Outcome::passed);
  CHECK(outcome_by_stream({ended, failed_assertion}, protocol::Outcome::error) == protocol::Outcome::error);
  CHECK(outcome_by_stream({failed_assertion}) == protocol::Outcome::missing);
}

TEST_CASE("the ends of processes that end a world") {
  using enum protocol::Ending::How;
  const auto died = [](protocol::Ending::How how, int code, std::int64_t position, bool is_cause) {
    protocol::Ending ending{0, how, code, position, ""};
    ending.is_cause = is_cause;
    return died_by_itself(ending);
  };
  CHECK(died(signalled, SIGKILL, -1, false));
  CHECK(died(overran, 0, -1, false));
  CHECK(died(not_started, 0, -1, false));
  CHECK(died(exited, 0, 2, false));
  CHECK(died(exited, 0, -1, true));
  CHECK_FALSE(died(exited, 0, -1, false));
  CHECK_FALSE(died(exited, protocol::rank_could_not_join, -1, true));
  CHECK_FALSE(died(stopped, SIGKILL, 2, false));
  CHECK_FALSE(died(interrupted, SIGINT, 2, false));
  CHECK_FALSE(died(foreign, 0, -1, false));
}

std::string result_text(Verdict verdict, std::string_view) { return "`" + std::string(to_string(verdict)) + "`"; }

std::string result_text(std::optional<protocol::Outcome> outcome, std::string_view otherwise) {
  return outcome ? "`" + std::string(protocol::to_string(*outcome)) + "`" : std::string(otherwise);
}

/// The table as Markdown. `otherwise` is the text for a rule without a result.
template <class Fact, class Result>
std::string table(std::string_view heading, std::span<const Rule<Fact, Result>> rules, std::string_view otherwise) {
  std::string text = "| " + std::string(heading) + " | when |\n|---|---|\n";
  for (const auto& rule : rules)
    text += "| " + result_text(rule.result, otherwise) + " | " + std::string(rule.when) + " |\n";
  return text;
}

TEST_CASE("the documentation shows the tables of outcome rules") {
  std::ifstream file("docs/reports.md");  // tests run in the source tree
  const std::string page(std::istreambuf_iterator<char>(file), {});
  REQUIRE_FALSE(page.empty());
  for (const std::string& expected :
       {table("outcome by the end of the process", ending_rules(), "by the stream"),
        table("outcome by the stream", stream_rules(), "as reported"), table("verdict", verdict_rules(), "")}) {
    INFO("docs/reports.md has to have this table:\n" << expected);
    CHECK(page.find("\n\n" + expected + "\n") != std::string::npos);
  }
}

}  // namespace
}  // namespace shardproof::reports
