// Which failures have one cause, and which have not?
#include "reports/explain/causes.hpp"

#include <catch2/catch_test_macros.hpp>

#include "harness/protocol/failure_text.hpp"

namespace shardproof::reports {
namespace {

protocol::event::AssertionFailed check(const std::string& expression, const std::string& expansion,
                                       std::vector<std::string> clauses = {"A-1"}) {
  return {.file = "suites/a/cases.cpp",
          .line = 42,
          .macro = "CHECK",
          .expression = expression,
          .expansion = expansion,
          .messages = {},
          .clauses = std::move(clauses)};
}

protocol::event::AssertionFailed said(const std::string& text, std::string_view macro = "FAIL_CHECK") {
  protocol::event::AssertionFailed failure = check({}, text);
  failure.macro = macro;
  return failure;
}

CaseResult failed(const std::string& id, std::vector<protocol::event::AssertionFailed> failures,
                  Verdict verdict = Verdict::failed) {
  CaseResult result;
  result.info.id = id;
  result.verdict = verdict;
  for (protocol::event::AssertionFailed& failure : failures)
    result.failures.push_back({.rank = 0, .assertion = std::move(failure)});
  return result;
}

TEST_CASE("an assertion is a separate cause, whatever its values are") {
  CHECK(cause_of(check("a == b", "1 == 2")) == cause_of(check("a == b", "3 == 4")));
  CHECK(cause_of(check("a == b", "1 == 2")) != cause_of(check("a == c", "1 == 2")));
  auto elsewhere = check("a == b", "1 == 2");
  ++elsewhere.line;
  CHECK(cause_of(check("a == b", "1 == 2")) != cause_of(elsewhere));
}

TEST_CASE("the first clause of a failure is part of its cause, and others are not") {
  CHECK(cause_of(check("a", "false", {"A-1"})) != cause_of(check("a", "false", {"A-2"})));
  CHECK(cause_of(check("a", "false", {"A-1"})) == cause_of(check("a", "false", {"A-1", "A-50"})));
}

TEST_CASE("texts have one cause if they differ in numbers, quoted names and parentheses alone") {
  const auto race = [](const std::string& label, const std::string& times, const std::string& stream) {
    return cause_of(
        said("rank 1: all_gather \"" + label + "\" on stream " + stream + " (" + times + ") writes bytes 0..160"));
  };
  CHECK(race("layers.1", "10 ms..20 ms", "all_gather") == race("", "1.5 us..2 ms", "all_gather"));
  CHECK(race("layers.1", "10 ms..20 ms", "all_gather") != race("layers.1", "10 ms..20 ms", "reduce"));
  CHECK(cause_of(said("forward takes 85 ms")) == cause_of(said("forward takes 87.25 ms")));
  CHECK(cause_of(said("an open \"quote 1")) == cause_of(said("an open \"quote 27")));
}

TEST_CASE("races that lack one wait have one cause, whatever work they are between") {
  const auto race = [](const std::string& work, const std::string& stream) {
    return cause_of(said(work + "\n  missing: stream compute waits for an event recorded on stream " + stream +
                         " after the first"));
  };
  CHECK(race("all_gather, then copy_out", "all_gather") == race("all_gather, then forward", "all_gather"));
  CHECK(race("all_gather, then copy_out", "all_gather") != race("all_gather, then copy_out", "reduce"));
}

TEST_CASE("what the harness checks, and an exception, has one cause in all cases") {
  for (const std::string_view macro :
       {protocol::equal_collectives_check, protocol::freed_memory_check, std::string_view()}) {
    auto here = said("rank 0 asks for 2", macro), there = said("rank 1 asks for 3", macro);
    there.file = "suites/b/cases.cpp";
    CHECK(cause_of(here) == cause_of(there));
  }
}

TEST_CASE("cases are grouped by their first failure, in the order of the report") {
  const CaseResult one = failed("s/one", {check("a", "1"), check("b", "1")}), two = failed("s/two", {check("b", "2")}),
                   three = failed("s/three", {check("a", "3")});
  const std::vector<const CaseResult*> all{&one, &two, &three};
  const std::vector<CauseGroup> groups = by_cause(all);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].shown == &one);
  CHECK(groups[0].others == std::vector<const CaseResult*>{&three});
  CHECK(groups[1].shown == &two);
  CHECK(groups[1].others.empty());
}

TEST_CASE("without failures the ranks' reasons distinguish causes, and each death or hang is a separate cause") {
  const auto error = [](const std::string& id, const std::string& reason) {
    CaseResult result = failed(id, {}, Verdict::error);
    result.reasons[1] = reason;
    return result;
  };
  CHECK(cause_of(error("s/one", "no sign of rank 1")) == cause_of(error("s/two", "no sign of rank 0")));
  CHECK(cause_of(error("s/one", "no sign of rank 1")) != cause_of(error("s/two", "no assertion")));
  CHECK(cause_of(failed("s/one", {}, Verdict::crashed)) != cause_of(failed("s/two", {}, Verdict::crashed)));
  CHECK(cause_of(failed("s/one", {check("a", "1")}, Verdict::hung)) !=
        cause_of(failed("s/two", {check("a", "1")}, Verdict::hung)));
  CHECK(cause_of(failed("s/one", {check("a", "1")})) !=
        cause_of(failed("s/one", {check("a", "1")}, Verdict::disagreed)));
}

}  // namespace
}  // namespace shardproof::reports
