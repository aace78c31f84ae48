#include "reports/export/annotations.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <regex>
#include <sstream>
#include <vector>

#include "harness/base/utf8.hpp"
#include "tests/reports/hostile_report.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;

std::string in_place(const std::string& file) { return file; }

std::string github(const Report& report) { return annotations(report, AnnotationFormat::github, in_place); }
std::string azure(const Report& report) { return annotations(report, AnnotationFormat::azure, in_place); }

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// One failed case, whose only assertion says this.
Report failed(const std::string& expansion) {
  Report report = WorldOnPaper(2, {"mine/one"}).merged();
  fail(report.cases.front(), expansion);
  protocol::event::AssertionFailed& assertion = report.cases.front().failures.front().assertion;
  assertion.file = "tests/a.cpp";
  assertion.line = 15;
  return report;
}

}  // namespace

TEST_CASE("annotations: a failure has its place, its case, its cause and the command that repeats it") {
  CHECK(github(failed("1 == 2")) ==
        "::error file=tests/a.cpp,line=15,title=FAIL mine/one[W=2]::rank 1: CHECK( loss == expected ) with 1 == 2%0A"
        "again: shardproof run 'mine/one[W=2]' --seed 0\n");
  CHECK(
      azure(failed("1 == 2")) ==
      "##vso[task.logissue type=error;sourcepath=tests/a.cpp;linenumber=15;]FAIL mine/one[W=2]: rank 1: CHECK( loss == "
      "expected ) with 1 == 2%0Aagain: shardproof run 'mine/one[W=2]' --seed 0\n");
}

TEST_CASE("annotations: a passed report has none, and a waived or skipped case has none") {
  Report report = WorldOnPaper(2, {"mine/one"}).merged();
  CHECK(github(report).empty());
  CHECK(azure(report).empty());
  report.cases.front().verdict = Verdict::skipped;
  CHECK(github(report).empty());
  CHECK_THAT(github(sample_report()), !ContainsSubstring("mine/waived["));
}

TEST_CASE("annotations: each special character of the formats is escaped") {
  Report report = failed("50% of a:b, c;d] e");
  report.cases.front().info.id = "mine/one[W=2,k=50%]";
  report.cases.front().failures.front().assertion.file = "a,b:c;d].cpp";
  CHECK_THAT(github(report),
             ContainsSubstring("::error file=a%2Cb%3Ac;d].cpp,line=15,title=FAIL mine/one[W=2%2Ck=50%25]::rank 1") &&
                 ContainsSubstring("with 50%25 of a:b, c;d] e%0A"));
  CHECK_THAT(azure(report), ContainsSubstring("sourcepath=a,b:c%3Bd%5D.cpp;linenumber=15;]FAIL") &&
                                ContainsSubstring("with 50%AZP25 of a:b, c;d] e%0A"));
}

TEST_CASE("annotations: text of ranks cannot make another command") {
  for (const std::string hostile :
       {"x\n::set-output name=a::b", "x\r\n::error::forged", "x\u2028::add-mask::y", "x%0A::error::y",
        "x\n##vso[task.setvariable variable=a]b", "x\n::stop-commands::t"}) {
    Report report = failed(hostile);
    report.cases.front().info.id = "mine/" + hostile + "[W=2]";
    report.cases.front().failures.front().assertion.file = hostile;
    INFO(hostile);
    CHECK(lines_of(github(report)).size() == 1);
    CHECK(lines_of(azure(report)).size() == 1);
    CHECK_THAT(github(report), !ContainsSubstring("\r") && !ContainsSubstring("\u2028"));
    // An escape that ranks wrote must not become the character.
    CHECK_THAT(github(failed("x%0A::error::y")), ContainsSubstring("x%250A::error::y"));
  }
}

TEST_CASE("annotations: every line of hostile reports is one valid command") {
  const std::regex of_github("::error (file=[^:,]*,(line=[0-9]+,)?)?title=[^:,]*::.*|::notice title=shardproof::.*");
  const std::regex of_azure(
      "##vso\\[task\\.logissue type=(error|warning);(sourcepath=[^;\\]]*;(linenumber=[0-9]+;)?)?\\].*");
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Report report = hostile_report(seed);
    for (const std::string& line : lines_of(github(report))) {
      INFO(line);
      CHECK(std::regex_match(line, of_github));
      CHECK(base::is_utf8(line));
    }
    for (const std::string& line : lines_of(azure(report))) {
      INFO(line);
      CHECK(std::regex_match(line, of_azure));
    }
  }
}

TEST_CASE("annotations: each cause has one, and the last line counts those left out") {
  Report alike = failures_report(3);
  for (CaseResult& result : alike.cases) result.failures.front().assertion.line = 7;
  CHECK(lines_of(github(alike)).size() == 1);
  CHECK_THAT(github(alike), ContainsSubstring("%0Aalso in: 2 other cases%0A"));

  CHECK(lines_of(github(failures_report(10))).size() == 10);
  const std::vector<std::string> some = lines_of(github(failures_report(11)));
  CHECK(some.size() == 11);
  CHECK(some.back() == "::notice title=shardproof::1 more failure is in the report");
  const std::vector<std::string> many = lines_of(azure(failures_report(120)));
  CHECK(many.size() == 101);
  CHECK(many.back() == "##vso[task.logissue type=warning;]20 more failures are in the report");
}

TEST_CASE("annotations: a report with a bad exit code has at least one") {
  Report none = WorldOnPaper(2, {"mine/one", "mine/two"}).merged();
  for (CaseResult& result : none.cases) result.verdict = Verdict::not_run;
  CHECK(github(none) == "::error title=NOT RUN 2 cases::mine/one[W=2], mine/two[W=2]\n");
  CHECK_THAT(github(Report{}), ContainsSubstring("::error title=end of the run::exit code 5%3A nothing ran") ||
                                   ContainsSubstring("::error title=end of the run::exit code 5: nothing ran"));
}

TEST_CASE("annotations: a retried case counts with its last attempt") {
  const std::string text = github(retried_report());
  CHECK_THAT(text, !ContainsSubstring("mine/again") && ContainsSubstring("mine/never"));
}

TEST_CASE("text for people has no command of Azure") {
  CHECK(without_azure_commands("a ##vso[task.x]b ##VSO[ ##[error] ## [ #") ==
        "a ##vso [task.x]b ##VSO [ ## [error] ## [ #");
}

}  // namespace shardproof::reports
