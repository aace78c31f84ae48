#include "reports/export/ctrf.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "reports/export/exporter.hpp"
#include "reports/export/foreign_text.hpp"
#include "tests/reports/hostile_report.hpp"
#include "tests/rounds.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace testing;
using Json = nlohmann::ordered_json;

const Json& test_of(const Json& document, std::string_view name) {
  for (const Json& test : document.at("results").at("tests")) {
    if (test.at("name") == name) return test;
  }
  throw std::out_of_range(std::string(name));
}

TEST_CASE("CTRF: the summary counts each test once") {
  const Json document = ctrf(sample_report(), {});
  CHECK(document.at("reportFormat") == "CTRF");
  CHECK(document.at("specVersion") == "1.0.0");
  CHECK(document.at("results").at("tool").at("name") == "shardproof");
  const Json& summary = document.at("results").at("summary");
  CHECK(summary.at("tests") == document.at("results").at("tests").size());
  CHECK(summary.at("tests") ==
        summary.at("passed").get<int>() + summary.at("failed").get<int>() + summary.at("skipped").get<int>());
  CHECK(summary.at("skipped") == 2);
  CHECK(summary.at("flaky") == 1);
  CHECK(summary.at("start") == 1893553445000);  // 2030-01-02T03:04:05Z
  CHECK(summary.at("stop") > summary.at("start"));
}

TEST_CASE("CTRF: a test has its case's facts, and the reason of its status") {
  const Json document = ctrf(sample_report(), {});
  const Json& failed = test_of(document, "mine/failed[W=2]");
  CHECK(failed.at("status") == "failed");
  CHECK(failed.at("rawStatus") == "failed");
  CHECK(failed.at("duration") == 12);
  CHECK(failed.at("suite") == Json{"mine"});
  CHECK(failed.at("tags") == Json{"overlap"});
  CHECK(failed.at("filePath") == "suites/mine/cases.cpp");
  CHECK(failed.at("line") == 7);
  CHECK(failed.at("parameters") == Json{{"W", "2"}});
  CHECK(failed.at("extra").at("clauses") == Json{"OVL-1", "OVL-5"});
  CHECK(failed.at("extra").at("duration_ns") == 12'000'000);
  CHECK_THAT(failed.at("message").get<std::string>(), StartsWith("rank 1: CHECK( run.forward()"));
  CHECK_THAT(failed.at("trace").get<std::string>(), StartsWith("FAIL mine/failed[W=2]"));
  const Json& waived = test_of(document, "mine/waived[W=2]");
  CHECK(waived.at("status") == "skipped");
  CHECK(waived.at("rawStatus") == "failed");
  CHECK_THAT(waived.at("message").get<std::string>(), StartsWith("waived by ada until "));
  CHECK(test_of(document, "mine/crashed[W=2]").at("rawStatus") == "crashed");
  CHECK(test_of(document, "demands on the run").at("status") == "failed");
}

TEST_CASE("CTRF: attempts are retries of one test") {
  const Json document = ctrf(retried_report(), {});
  const Json& again = test_of(document, "mine/again[W=2]");
  CHECK(again.at("status") == "passed");
  CHECK(again.at("flaky") == true);
  CHECK(again.at("retries") == 1);
  REQUIRE(again.at("retryAttempts").size() == 2);
  CHECK(again.at("retryAttempts").at(0).at("attempt") == 1);
  CHECK(again.at("retryAttempts").at(0).at("status") == "failed");
  CHECK(again.at("retryAttempts").at(1).at("status") == "passed");
  const Json& never = test_of(document, "mine/never[W=2]");
  CHECK(never.at("flaky") == false);
  CHECK(never.at("retryAttempts").at(1).at("status") == "failed");
}

TEST_CASE("CTRF: an unknown start is 0") {
  for (const char* const started : {"", "now", "2030-13-02T03:04:05Z", "2030-01-02", "-030-01-02T03:04:05Z"}) {
    Report report = WorldOnPaper(2, {"mine/one"}).merged();
    report.head.started = started;
    const Json document = ctrf(report, {});
    CHECK(document.at("results").at("summary").at("start") == 0);
    CHECK(document.at("results").at("summary").at("stop") == 12);
  }
}

TEST_CASE("CTRF: hostile text stays visible text, and the document can be read") {
  const auto exporter = std::ranges::find(exporters(), std::string_view("--ctrf"), &Exporter::option);
  for (std::uint64_t seed = 0; seed < shardproof::testing::rounds(std::uint64_t{200}); ++seed) {
    INFO("seed " << seed);
    const std::string text = exporter->text(hostile_report(seed), {});
    CHECK(visible_text(text) == text);
    CHECK(Json::parse(text) == ctrf(hostile_report(seed), {}));  // no byte is lost
  }
}

}  // namespace
}  // namespace shardproof::reports
