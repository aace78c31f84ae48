#include "reports/export/junit.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/base/utf8.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/foreign_text.hpp"
#include "tests/reports/hostile_report.hpp"
#include "tests/rounds.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;

TEST_CASE("JUnit: a report as a whole") {
  Report report = WorldOnPaper(2, {"mine/one", "other/two"}).merged();
  report.head.run_id = "run-7";
  report.head.started = "2030-01-02T03:04:05Z";
  report.head.subject = "fully_shard";
  report.head.seed = 7;
  report.head.machine = {{"host", "node-1"}};
  report.cases[1].verdict = Verdict::skipped;
  report.cases[1].skipped_by = 1;
  const std::string properties =
      " timestamp=\"2030-01-02T03:04:05\" hostname=\"node-1\">\n"
      "    <properties>\n"
      "      <property name=\"run_id\" value=\"run-7\"/>\n"
      "      <property name=\"subject\" value=\"fully_shard\"/>\n"
      "      <property name=\"seed\" value=\"7\"/>\n"
      "      <property name=\"machine.host\" value=\"node-1\"/>\n"
      "    </properties>\n";
  CHECK(junit(report, {}) ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites name=\"shardproof\" tests=\"2\" failures=\"0\" errors=\"0\" time=\"0.024\">\n"
        "  <testsuite name=\"mine\" tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"0\" time=\"0.012\"" +
            properties +
            "    <testcase classname=\"mine\" name=\"mine/one[W=2]\" time=\"0.012000000\"/>\n"
            "  </testsuite>\n"
            "  <testsuite name=\"other\" tests=\"1\" failures=\"0\" errors=\"0\" skipped=\"1\" time=\"0.012\"" +
            properties +
            "    <testcase classname=\"other\" name=\"other/two[W=2]\" time=\"0.012000000\">\n"
            "      <skipped message=\"no reason given (asked by rank 1)\"/>\n"
            "    </testcase>\n"
            "  </testsuite>\n"
            "</testsuites>\n");
}

TEST_CASE("JUnit: a failure has the terminal's text, and the other bad verdicts are errors") {
  const Report report = sample_report();
  const std::string text = junit(report, {});
  for (const CaseResult& result : report.cases) {
    if (!is_bad(result.verdict) || result.waiver >= 0) continue;
    const std::string element = result.verdict == Verdict::failed ? "failure" : "error";
    CHECK_THAT(text,
               ContainsSubstring("      <" + element + " type=\"" + std::string(to_string(result.verdict)) + "\""));
    CHECK_THAT(text, ContainsSubstring(escaped_markup(failure_text(result, report, {})) + "</" + element + ">\n"));
  }
  CHECK_THAT(text, ContainsSubstring("name=\"mine/waived[W=2]\" time=\"0.012000000\">\n"
                                     "      <skipped message=\"waived by ada until 2030-02-01: "));
  CHECK_THAT(text, ContainsSubstring("<testsuite name=\"shardproof run\"") &&
                       ContainsSubstring("name=\"demands on the run\""));
}

TEST_CASE("JUnit: earlier attempts show whether a later one passed") {
  const std::string text = junit(retried_report(), {});
  CHECK_THAT(text, ContainsSubstring("name=\"mine/again[W=2]\" time=\"0.012000000\">\n"
                                     "      <flakyFailure type=\"failed\" message=\"rank 1: CHECK( loss == expected ) "
                                     "with 1 == 2\"><stackTrace>FAIL mine/again[W=2] (attempt 1)"));
  CHECK_THAT(text, ContainsSubstring("<system-out>flaky: "));
  const auto never = text.find("mine/never[W=2]");
  CHECK(text.find("<failure", never) < text.find("<rerunFailure", never));
  CHECK_THAT(text, ContainsSubstring("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""));
}

TEST_CASE("JUnit: hostile text stays text") {
  for (std::uint64_t seed = 0; seed < shardproof::testing::rounds(std::uint64_t{200}); ++seed) {
    const std::string text = junit(hostile_report(seed), {});
    INFO("seed " << seed);
    CHECK(visible_text(text) == text);
    for (const char* const foreign : {"<script", "<h1", "<failure/>", "]]>", "&#"})
      CHECK_THAT(text, !ContainsSubstring(foreign));
  }
}

}  // namespace
}  // namespace shardproof::reports
