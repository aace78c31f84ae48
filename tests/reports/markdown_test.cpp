#include "reports/export/markdown.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <regex>
#include <sstream>

#include "reports/export/foreign_text.hpp"
#include "tests/reports/hostile_report.hpp"
#include "tests/rounds.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using namespace testing;

TEST_CASE("Markdown: totals, causes, details, and what passed by an excuse") {
  const std::string text = markdown(sample_report(), {});
  CHECK_THAT(text, ContainsSubstring("## shardproof: failed\n\n9 cases in 2 worlds: 2 passed, 1 skipped, 1 waived, ") &&
                       ContainsSubstring("; 1 flaky\n\nSubject `fully_shard`, seed 18446744073709551615, run "));
  CHECK_THAT(text, ContainsSubstring("\n| FAIL | `mine/failed[W=2]` | 1 | `rank 1: CHECK( run.forward() <= "));
  CHECK_THAT(text,
             ContainsSubstring("<details><summary>CRASH <code>mine/crashed&#91;W=2&#93;</code></summary>\n\n<pre>\n"
                               "CRASH mine/crashed[W=2]"));
  CHECK_THAT(text, ContainsSubstring("\n### Waived\n\n* 1 case: `waived by ada until 2030-02-01: "));
  CHECK_THAT(text, ContainsSubstring("\n### Skipped\n\n* 1 case: `needs a timeline (asked by rank 0)`\n"));
  CHECK_THAT(text, ContainsSubstring("\n### Flaky\n\n* `mine/flaky[W=2]`\n"));
  CHECK_THAT(text, ContainsSubstring("\n### Slowest\n\n* 12 ms `mine/"));
  CHECK_THAT(text, ContainsSubstring("\n### The run\n\n* demands on the run: `"));
}

TEST_CASE("Markdown: a run without failures is short") {
  const std::string text = markdown(WorldOnPaper(2, {"mine/one"}).merged(), {});
  CHECK(text ==
        "## shardproof: passed\n\n1 case in 1 world: 1 passed\n\nSubject `none`, seed 0.\n"
        "\n### Slowest\n\n* 12 ms `mine/one[W=2]`\n");
}

TEST_CASE("Markdown: its size has a limit, and it counts what is left out") {
  const Report report = failures_report(10'000);
  for (const std::size_t limit : {least_markdown_limit, std::size_t{100'000}, markdown_limit}) {
    const std::string text = markdown(report, {}, limit);
    CHECK(text.size() <= limit);
    CHECK_THAT(text, ContainsSubstring("10000 cases in 1 world: 10000 failed"));
    std::smatch found;
    REQUIRE(
        std::regex_search(text, found, std::regex("\n(\\d+) more causes, with (\\d+) cases, are left out of this")));
    const auto rows = std::ranges::count(text, '|') / 5 - 2;
    CHECK(found[1] == std::to_string(10'000 - rows));
  }
  CHECK(markdown(report, {}).size() < markdown_limit / 4);  // a page that a browser shows
}

TEST_CASE("Markdown: hostile text is never more than the limit, either") {
  Report report = failures_report(300);
  spoil(report, HostileTexts(1));
  for (CaseResult& result : report.cases) {
    result.info.id.insert(0, std::string(5'000, '`'));
    result.failures.front().assertion.expression = std::string(50'000, '<');
  }
  report.head.subject = report.head.run_id = report.head.fault = std::string(100'000, '|');
  CHECK(markdown(report, {}, least_markdown_limit).size() <= least_markdown_limit);
  CHECK(markdown(report, {}).size() <= markdown_limit);
}

/// The line without code spans and elements that hold foreign text.
std::string own_part(const std::string& line) {
  static const std::regex foreign("`[^`]*`|<code>[^<>]*</code>");
  return std::regex_replace(line, foreign, "C");
}

TEST_CASE("Markdown: hostile text is code, and neither Markdown nor HTML") {
  static const std::regex table_row("\\| (WAIVED )?[A-Z ]+ \\| C \\| \\d+ \\| C \\|"),
      item("\\* [\\w. :]*(C( \\((attempt|repetition) \\d+\\))?)?|\\* [a-z ]+: C"),
      own("|## shardproof: (passed|failed)|### [A-Za-z ]+|\\| verdict "
          "\\|.*|\\|---\\|---\\|--:\\|---\\||<pre>|</details>"
          "|Subject C( with fault C)?, seed \\d+(, run C)?\\.|\\d+ cases? in .*"
          "|<details><summary>[A-Z ]+ C</summary>|\\d+ more causes?, with .*");
  for (std::uint64_t seed = 0; seed < shardproof::testing::rounds(std::uint64_t{200}); ++seed) {
    const std::string text = markdown(hostile_report(seed), {});
    CHECK(visible_text(text) == text);
    std::istringstream lines(text);
    bool is_inside = false;  // of <pre>, where only < and & mean something
    for (std::string line; std::getline(lines, line);) {
      INFO("seed " << seed << ": " << line);
      if (is_inside) {
        is_inside = line != "</pre>";
        CHECK((!is_inside || line.find('<') == std::string::npos));
        continue;
      }
      is_inside = line == "<pre>";
      const std::string part = own_part(line);
      CHECK((std::regex_match(part, own) || std::regex_match(part, table_row) || std::regex_match(part, item)));
    }
    CHECK_FALSE(is_inside);
  }
}

}  // namespace
}  // namespace shardproof::reports
