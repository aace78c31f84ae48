#include "reports/statement/statement.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "tests/reports/clause_cases.hpp"
#include "tests/reports/sample_report.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;

/// A run of an engine that meets one clause of each status.
Report run_of_an_engine() {
  Report report = report_of(
      {citing("s/broken", Verdict::failed, {"OVL-3"}), waived(citing("s/known", Verdict::failed, {"OVL-2"})),
       citing("s/large", Verdict::skipped, {"OVL-5"}), citing("s/right", Verdict::passed, {"OVL-1", "OVL-10"}),
       unclaimed(citing("s/unclaimed", Verdict::skipped, {"OVL-4"}))});
  report.cases[2].ranks = {{.outcome = protocol::Outcome::skipped, .assertions = 0}};
  report.cases[2].reasons = {{0, "needs | more memory"}};
  report.cases[4].ranks = {{.outcome = protocol::Outcome::skipped, .assertions = 0}};
  report.cases[4].reasons = {{0, "needs a timeline"}};
  RunHead& head = report.head;
  head.subject = "mine";
  head.subject_version = "1.2";
  head.suite_version = "0.1.0";
  head.started = "2030-01-02T03:04:05Z";
  head.profile = "core";
  head.outside_profile = 7;
  head.waivers = {{.pattern = "s/known",
                   .verdict = Verdict::failed,
                   .when = {},
                   .reason = "late",
                   .link = "https://tracker.example/7",
                   .owner = "ada",
                   .expires = "2030-02-01",
                   .shown_by = {}}};
  return report;
}

protocol::Listing listing_of_the_worker() {
  protocol::Listing listing;
  listing.clauses = {{.id = "OVL-1", .required = true, .text = "waits | for the all-gather"},
                     {.id = "OVL-6", .required = false, .text = "takes 85 ms"},
                     {.id = "REP-1", .required = true, .text = "buckets"}};
  for (const auto& [id, engine, clause] :
       {std::tuple{"s/other", "fully_shard", "OVL-6"}, std::tuple{"r/other", "replicate", "REP-1"}}) {
    protocol::CaseInfo info;
    info.id = id;
    info.engine = engine;
    info.clauses = {clause};
    listing.cases.push_back(info);
  }
  return listing;
}

TEST_CASE("a statement as Markdown") {
  const protocol::Listing listing = listing_of_the_worker();
  CHECK(to_markdown(statement_of(run_of_an_engine(), &listing)) ==
        R"(# Statement of conformance: mine

| of the run | |
|---|---|
| subject | mine |
| version of the subject | 1.2 |
| version of the suite | 0.1.0 |
| date | 2030-01-02T03:04:05Z |
| device | sim |
| fabric | shm |
| world sizes | 1 |
| profile | core |

## `fully_shard`

7 clauses: 1 not met, 1 waived, 2 met, 1 not claimed, 2 not tested

| clause | status | cases | text |
|---|---|---|---|
| OVL-1 | met | 1 passed | waits \| for the all-gather |
| OVL-2 | waived | 1 waived |  |
| OVL-3 | not met | 1 failed |  |
| OVL-4 | not claimed | 1 skipped, not claimed |  |
| OVL-5 | not tested | 1 skipped |  |
| OVL-6 | not tested | none | takes 85 ms (reference) |
| OVL-10 | met | 1 passed |  |

## Waivers

| cases | owner | reason | expires |
|---|---|---|---|
| 1 case: s/known | ada | late (https://tracker.example/7) | 2030-02-01 |

## Not run

* The profile leaves out 7 cases of the worker.
* 1 case skipped: needs a timeline: s/unclaimed
* 1 case skipped: needs \| more memory: s/large
)");
}

TEST_CASE("a statement without a listing has the clauses of the run, and no texts") {
  const Statement statement = statement_of(run_of_an_engine(), nullptr);
  REQUIRE(statement.kinds.size() == 1);
  CHECK(statement.kinds[0].clauses.size() == 6);
  CHECK(statement.kinds[0].clauses[0].text.empty());
  CHECK(to_json(statement)["engine_kinds"][0]["clauses"][0]["required"] == nullptr);
}

TEST_CASE("a statement names what makes it weak") {
  Report report = run_of_an_engine();
  report.head.fault = "one_stream";
  report.head.partial = true;
  report.cases[3].verdict = Verdict::not_run;
  const std::string text = to_markdown(statement_of(report, nullptr));
  CHECK_THAT(text, ContainsSubstring("The run put the fault `one_stream` into the subject."));
  CHECK_THAT(text, ContainsSubstring("| profile | core, a part of it |"));
  CHECK_THAT(text, ContainsSubstring("* 1 case not run: there is no evidence: s/right\n"));
  CHECK_THAT(text, ContainsSubstring("| OVL-1 | not tested | 1 not run |"));

  const std::string nothing = to_markdown(statement_of(Report{}, nullptr));
  CHECK_THAT(nothing, ContainsSubstring("No case of the run cites a clause."));
  CHECK_THAT(nothing, ContainsSubstring("| world sizes | none |"));
  CHECK_THAT(nothing, ContainsSubstring("No waiver excuses a case."));
}

TEST_CASE("the reason of a skip is text, and neither Markdown nor HTML") {
  Report report = run_of_an_engine();
  report.cases[4].reasons = {{0, "<img src=x> [l](http://e) `b` \xe2\x80\xae\n# head | *c*"}};
  CHECK_THAT(to_markdown(statement_of(report, nullptr)),
             ContainsSubstring(
                 "* 1 case skipped: &lt;img src=x&gt; \\[l\\](http://e) \\`b\\` \\u{202e} # head \\| \\*c\\*: "));
}

TEST_CASE("waivers with the same texts share a row of the Markdown") {
  Report report = run_of_an_engine();
  report.head.waivers.push_back(report.head.waivers[0]);
  report.head.waivers[1].pattern = "s/unclaimed";
  report.cases[4].verdict = Verdict::failed;
  report.cases[4].waiver = 1;
  const Statement statement = statement_of(report, nullptr);
  CHECK(statement.waivers.size() == 2);
  CHECK_THAT(to_markdown(statement), ContainsSubstring("| 2 cases: s/known, s/unclaimed | ada | late ("));

  report.head.waivers[1].expires = "2031-01-01";
  const std::string other_date = to_markdown(statement_of(report, nullptr));
  CHECK_THAT(other_date, ContainsSubstring("| 1 case: s/known |"));
  CHECK_THAT(other_date, ContainsSubstring("| 1 case: s/unclaimed |"));
}

TEST_CASE("only worlds in which a case ran are covered") {
  Report report = run_of_an_engine();
  report.worlds.push_back({.size = 8, .fabric = "nccl", .device = "cuda"});
  report.cases[2].world = report.cases[4].world = 1;  // skipped there
  const Statement statement = statement_of(report, nullptr);
  CHECK(statement.devices == std::vector<std::string>{"sim"});
  CHECK(statement.fabrics == std::vector<std::string>{"shm"});
  CHECK(statement.world_sizes == std::vector<int>{1});
}

TEST_CASE("a statement as JSON") {
  const protocol::Listing listing = listing_of_the_worker();
  const auto json = to_json(statement_of(run_of_an_engine(), &listing));
  CHECK(json["statement_version"] == statement_version);
  CHECK(json["subject"].dump() == R"({"name":"mine","version":"1.2","fault":null})");
  CHECK(json["world_sizes"].dump() == "[1]");
  CHECK(json["engine_kinds"][0]["engine"] == "fully_shard");
  CHECK(json["engine_kinds"][0]["clauses"][2].dump() ==
        R"({"clause":"OVL-3","status":"not_met","required":null,"text":"","cases":{"passed":0,"failed":1,"waived":0,)"
        R"("not_claimed":0,"skipped":0,"not_run":0,"failed_elsewhere":0}})");
  CHECK(json["waivers"][0].dump() ==
        R"({"pattern":"s/known","verdict":"failed","reason":"late","link":"https://tracker.example/7","owner":"ada",)"
        R"("expires":"2030-02-01","cases":["s/known"]})");
  CHECK(json["not_run"][0].dump() == R"({"reason":"skipped: needs a timeline","cases":["s/unclaimed"]})");
  CHECK(to_json(statement_of(sample_report(), nullptr))["engine_kinds"][0]["engine"] == nullptr);
}

}  // namespace
}  // namespace shardproof::reports
