#include "reports/export/junit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/export/exported_cases.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/foreign_text.hpp"

namespace shardproof::reports {

namespace {

std::string attribute(std::string_view name, std::string_view value) {
  return fmt::format(" {}=\"{}\"", name, escaped_markup(one_line(value)));
}

std::string content(std::string_view text) { return escaped_markup(visible_text(text)); }

/// Exact: a short case of a few microseconds must not take no time at all.
std::string seconds(std::int64_t nanoseconds) {
  constexpr std::int64_t second = 1'000'000'000;
  return fmt::format("{}.{:09}", nanoseconds / second, nanoseconds % second);
}

/// For sums: the schema allows suites no more digits.
std::string rounded_seconds(std::int64_t nanoseconds) {
  constexpr std::int64_t millisecond = 1'000'000;
  const std::int64_t milliseconds = (nanoseconds + millisecond / 2) / millisecond;
  return fmt::format("{}.{:03}", milliseconds / 1000, milliseconds % 1000);
}

struct Counts {
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  std::int64_t time_ns = 0;

  void add(ExportedAs as, std::int64_t duration_ns) {
    ++tests;
    failures += as == ExportedAs::failed ? 1 : 0;
    errors += as == ExportedAs::error ? 1 : 0;
    skipped += as == ExportedAs::skipped ? 1 : 0;
    time_ns += duration_ns;
  }
  void add(const Counts& other) {
    tests += other.tests;
    failures += other.failures;
    errors += other.errors;
    skipped += other.skipped;
    time_ns += other.time_ns;
  }
};

struct Suite {
  Counts counts;
  std::string tests;
};

std::string properties_text(const Report& report) {
  const RunHead& head = report.head;
  std::vector<std::pair<std::string, std::string>> properties{{"run_id", head.run_id},
                                                              {"subject", head.subject},
                                                              {"subject_version", head.subject_version},
                                                              {"fault", head.fault},
                                                              {"profile", head.profile},
                                                              {"seed", fmt::format("{}", head.seed)},
                                                              {"suite_version", head.suite_version},
                                                              {"git_commit", head.git_commit}};
  properties.emplace_back("hosts", fmt::format("{}", fmt::join(names_of_hosts(report), ", ")));
  for (const auto& [name, value] : head.machine) properties.emplace_back("machine." + name, value);
  std::string text = "    <properties>\n";
  for (const auto& [name, value] : properties) {
    if (!value.empty())
      text += fmt::format("      <property{}{}/>\n", attribute("name", name), attribute("value", value));
  }
  return text + "    </properties>\n";
}

/// `element` is failure or error.
std::string bad_result(std::string_view element, const CaseResult& result, const Report& report,
                       const TextStyle& style) {
  return fmt::format("      <{0}{1}{2}>{3}</{0}>\n", element, attribute("type", to_string(result.verdict)),
                     attribute("message", cause_line(result, report)), content(failure_text(result, report, style)));
}

/// An attempt before the one that counts.
std::string earlier_attempt(const CaseResult& attempt, bool then_passed, const Report& report, const TextStyle& style) {
  const bool is_failure = exported_as(attempt) == ExportedAs::failed;
  const std::string element = fmt::format("{}{}", then_passed ? "flaky" : "rerun", is_failure ? "Failure" : "Error");
  return fmt::format("      <{0}{1}{2}><stackTrace>{3}</stackTrace></{0}>\n", element,
                     attribute("type", to_string(attempt.verdict)), attribute("message", cause_line(attempt, report)),
                     content(failure_text(attempt, report, style)));
}

std::string test_text(const ExportedCase& exported, const Report& report, const TextStyle& style) {
  const CaseResult& result = *exported.result;
  std::string inside;
  switch (exported_as(result)) {
    case ExportedAs::passed: break;
    case ExportedAs::skipped:
      inside += fmt::format("      <skipped{}/>\n", attribute("message", excuse_line(result, report)));
      break;
    case ExportedAs::failed: inside += bad_result("failure", result, report, style); break;
    case ExportedAs::error: inside += bad_result("error", result, report, style); break;
  }
  for (const CaseResult* const attempt : exported.earlier)
    inside += earlier_attempt(*attempt, exported_as(result) == ExportedAs::passed, report, style);
  if (exported.is_flaky)
    inside +=
        "      <system-out>flaky: this case passed in one repetition or attempt and was bad in another"
        "</system-out>\n";
  const std::string head = fmt::format("    <testcase{}{} time=\"{}\"", attribute("classname", result.info.suite),
                                       attribute("name", exported_name(result)), seconds(result.duration_ns));
  return inside.empty() ? head + "/>\n" : fmt::format("{}>\n{}    </testcase>\n", head, inside);
}

std::string run_failure_text(const RunFailure& failure) {
  return fmt::format("    <testcase{}{} time=\"0\">\n      <error type=\"run\"{}>{}</error>\n    </testcase>\n",
                     attribute("classname", run_suite), attribute("name", failure.name),
                     attribute("message", failure.sentences.front()),
                     content(fmt::format("{}\n", fmt::join(failure.sentences, "\n"))));
}

std::string suite_text(const std::string& name, const Suite& suite, const Report& report) {
  const RunHead& head = report.head;
  std::string attributes = attribute("name", name);
  attributes += fmt::format(" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
                            suite.counts.tests, suite.counts.failures, suite.counts.errors, suite.counts.skipped,
                            rounded_seconds(suite.counts.time_ns));
  // The format has no time zone: times are in UTC.
  if (!head.started.empty())
    attributes += attribute("timestamp", std::string_view(head.started).substr(0, head.started.find('Z')));
  if (const auto host = head.machine.find("host"); host != head.machine.end())
    attributes += attribute("hostname", host->second);
  return fmt::format("  <testsuite{}>\n{}{}  </testsuite>\n", attributes, properties_text(report), suite.tests);
}

}  // namespace

std::string junit(const Report& report, const TextStyle& style) {
  std::map<std::string, Suite> suites;
  for (const ExportedCase& exported : exported_cases(report)) {
    Suite& suite = suites[exported.result->info.suite];
    suite.counts.add(exported_as(*exported.result), exported.result->duration_ns);
    suite.tests += test_text(exported, report, style);
  }
  for (const RunFailure& failure : run_failures(report)) {
    Suite& suite = suites[run_suite];
    suite.counts.add(ExportedAs::error, 0);
    suite.tests += run_failure_text(failure);
  }
  Counts all;
  std::string text;
  for (const auto& [name, suite] : suites) {
    all.add(suite.counts);
    text += suite_text(name, suite, report);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"shardproof\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{}\">\n{}</testsuites>\n",
      all.tests, all.failures, all.errors, rounded_seconds(all.time_ns), text);
}

}  // namespace shardproof::reports
