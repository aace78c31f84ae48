#include "reports/export/exported_cases.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "reports/model/waivers.hpp"
#include "tests/reports/hostile_report.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace testing;

bool is_red(const Report& report) {
  return !run_failures(report).empty() || std::ranges::any_of(exported_cases(report), [](const ExportedCase& one) {
    return exported_as(*one.result) >= ExportedAs::failed;
  });
}

TEST_CASE("only a passed case counts as passed, and each bad case that no waiver excuses is failed or an error") {
  for (const Verdict verdict : all_verdicts) {
    CaseResult result;
    result.verdict = verdict;
    const ExportedAs expected = verdict == Verdict::passed    ? ExportedAs::passed
                                : verdict == Verdict::skipped ? ExportedAs::skipped
                                : verdict == Verdict::failed  ? ExportedAs::failed
                                                              : ExportedAs::error;
    CHECK(exported_as(result) == expected);
    result.waiver = 0;
    CHECK(exported_as(result) == ExportedAs::skipped);
  }
}

TEST_CASE("attempts are folded into the result that counts, and repetitions have names of their own") {
  const Report retried = retried_report();
  const std::vector<ExportedCase> cases = exported_cases(retried);
  REQUIRE(cases.size() == 2);
  for (const ExportedCase& one : cases) {
    CHECK(one.earlier.size() == 1);
    CHECK(one.earlier.front()->attempt == 0);
    CHECK(one.result->attempt == 1);
    CHECK(exported_name(*one.result) == one.result->info.id);
  }
  CHECK(cases[0].is_flaky);
  CHECK_FALSE(cases[1].is_flaky);

  const Report repeated = sample_report();
  std::vector<std::string> names;
  for (const ExportedCase& one : exported_cases(repeated)) {
    CHECK(one.earlier.empty());
    CHECK(one.is_flaky == one.result->info.id.starts_with("mine/flaky"));
    names.push_back(exported_name(*one.result));
  }
  CHECK(std::ranges::count(names, "mine/flaky[W=2]") == 1);
  CHECK(std::ranges::count(names, "mine/flaky[W=2] (repetition 1)") == 1);
}

TEST_CASE("the cause line has what explains the verdict") {
  const Report report = sample_report();
  const auto cause = [&](std::string_view id, Verdict verdict) {
    const auto found = std::ranges::find_if(
        report.cases, [&](const CaseResult& result) { return result.info.id == id && result.verdict == verdict; });
    REQUIRE(found != report.cases.end());
    return cause_line(*found, report);
  };
  CHECK(cause("mine/failed[W=2]", Verdict::failed) ==
        "rank 1: CHECK( run.forward() <= first_gather_exposed(run.scenario()) ) with 105000000 <= 85000000");
  CHECK(cause("mine/flaky[W=2]", Verdict::error) == "rank 1: std::runtime_error: \\x1b[31mno\\x1b[0m");
  CHECK(cause("mine/crashed[W=2]", Verdict::crashed) == "rank 1 died by signal 9 (SIGKILL) in mine/crashed[W=2]");
  CHECK_THAT(cause("mine/disagreed[W=2]", Verdict::disagreed), ContainsSubstring("exposed_ns"));
}

TEST_CASE("a waived or a skipped case has its reason") {
  Report report = sample_report();
  std::vector<std::string> excuses;
  for (const CaseResult& result : report.cases) {
    if (exported_as(result) == ExportedAs::skipped) excuses.push_back(excuse_line(result, report));
  }
  std::ranges::sort(excuses);
  REQUIRE(excuses.size() == 2);
  CHECK(excuses[0] == "needs a timeline (asked by rank 0)");
  CHECK(excuses[1] == "waived by ada until 2030-02-01: the new scheduler is late (https://tracker.example/7)");
}

TEST_CASE("an export is green if and only if the exit code is 0") {
  const Report passed = WorldOnPaper(2, {"mine/one"}).merged();
  Report demanding = passed, defective = passed, dead = passed, refused = passed, skipped = passed;
  demanding.head.demands.require = {"OVL-1"};
  defective.worlds[0].defects = {"rank 1 left no stream"};
  dead.worlds[0].endings[1].how = protocol::Ending::How::signalled;
  refused.worlds[0].endings[1].how = protocol::Ending::How::not_started;
  skipped.cases[0].verdict = Verdict::skipped;
  Report waived = sample_report();
  std::erase_if(waived.cases, [](const CaseResult& result) { return result.waiver < 0; });
  for (const Report& report : {passed, demanding, defective, dead, refused, skipped, waived, Report{}, sample_report(),
                               retried_report(), failures_report(1)}) {
    const std::vector<RunFailure> failures = run_failures(report);
    INFO("exit code " << exit_code(report) << ", " << failures.size() << " failures of the run");
    CHECK(is_red(report) == (exit_code(report) != all_passed));
  }
  CHECK(run_failures(passed).empty());
  CHECK(run_failures(demanding).at(0).name == "demands on the run");
  CHECK(run_failures(defective).at(0).sentences == std::vector<std::string>{"world 0: rank 1 left no stream"});
  CHECK_THAT(run_failures(dead).at(0).sentences.at(0), StartsWith("exit code 4: "));
  CHECK_THAT(run_failures(refused).at(0).sentences.at(0), StartsWith("exit code 3: "));
  CHECK_THAT(run_failures(Report{}).at(0).sentences.at(0), StartsWith("exit code 5: nothing ran"));
}

}  // namespace
}  // namespace shardproof::reports
