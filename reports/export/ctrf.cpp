#include "reports/export/ctrf.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/export/exported_cases.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/foreign_text.hpp"

namespace shardproof::reports {

namespace {

using Json = nlohmann::ordered_json;

std::int64_t milliseconds(std::int64_t nanoseconds) {
  constexpr std::int64_t millisecond = 1'000'000;
  return (nanoseconds + millisecond / 2) / millisecond;
}

std::optional<int> number_at(std::string_view text, std::size_t place, std::size_t digits) {
  if (text.size() < place + digits) return std::nullopt;
  int number = 0;
  const char* const end = text.data() + place + digits;
  const auto read = std::from_chars(text.data() + place, end, number);
  if (read.ec != std::errc() || read.ptr != end || number < 0) return std::nullopt;
  return number;
}

/// Milliseconds since 1970 of a time such as `2030-01-02T03:04:05Z`. 0: not such a time.
std::int64_t unix_time(std::string_view text) {
  const auto year = number_at(text, 0, 4), month = number_at(text, 5, 2), day = number_at(text, 8, 2),
             hour = number_at(text, 11, 2), minute = number_at(text, 14, 2), second = number_at(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return 0;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return 0;
  const auto since = std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(*hour) +
                     std::chrono::minutes(*minute) + std::chrono::seconds(*second);
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

const char* status(const CaseResult& result) {
  switch (exported_as(result)) {
    case ExportedAs::passed: return "passed";
    case ExportedAs::skipped: return "skipped";
    case ExportedAs::failed:
    case ExportedAs::error: break;
  }
  return "failed";
}

Json visible(const std::vector<std::string>& texts) {
  Json all = Json::array();
  for (const std::string& text : texts) all.push_back(visible_text(text));
  return all;
}

/// Adds the reason of a result that did not pass.
void add_reason(Json& json, const CaseResult& result, const Report& report, const TextStyle& style) {
  const ExportedAs as = exported_as(result);
  if (as == ExportedAs::passed) return;
  json["message"] = as == ExportedAs::skipped ? excuse_line(result, report) : cause_line(result, report);
  if (is_bad(result.verdict)) json["trace"] = visible_text(failure_text(result, report, style));
}

Json attempt_json(const CaseResult& result, std::size_t number, const Report& report, const TextStyle& style) {
  Json json{{"attempt", number}, {"status", status(result)}, {"duration", milliseconds(result.duration_ns)}};
  add_reason(json, result, report, style);
  return json;
}

Json extra_json(const CaseResult& result, const Report& report) {
  const WorldResult& world = report.worlds.at(static_cast<std::size_t>(result.world));
  Json extra{{"duration_ns", result.duration_ns},
             {"assertions", result.assertions},
             {"world", world.number},
             {"ranks", result.info.world_size},
             {"fabric", visible_text(world.fabric)},
             {"device", visible_text(world.device)}};
  if (world.placement.hosts().size() > 1) {
    for (const PlacedHost& host : world.placement.hosts()) extra["hosts"].push_back(visible_text(host.name));
  }
  if (!result.info.clauses.empty()) extra["clauses"] = visible(result.info.clauses);
  if (result.waiver >= 0) extra["waived"] = true;
  for (const auto& [name, measurement] : result.measurements)
    extra["measurements"][visible_text(name)] = visible_text(to_text(measurement));
  return extra;
}

Json test_json(const ExportedCase& exported, const Report& report, const TextStyle& style) {
  const CaseResult& result = *exported.result;
  const protocol::CaseInfo& info = result.info;
  Json json{{"name", exported_name(result)},
            {"status", status(result)},
            {"duration", milliseconds(result.duration_ns)},
            {"suite", {visible_text(info.suite)}},
            {"rawStatus", to_string(result.verdict)}};
  add_reason(json, result, report, style);
  if (!info.tags.empty()) json["tags"] = visible(info.tags);
  if (!info.file.empty()) json["filePath"] = visible_text(info.file);
  if (!info.file.empty() && info.line > 0) json["line"] = info.line;
  for (const auto& [name, value] : info.params) json["parameters"][visible_text(name)] = visible_text(value);
  json["flaky"] = exported.is_flaky && result.verdict == Verdict::passed;
  json["retries"] = exported.earlier.size();
  if (!exported.earlier.empty()) {
    Json& attempts = json["retryAttempts"] = Json::array();
    for (const CaseResult* const attempt : exported.earlier)
      attempts.push_back(attempt_json(*attempt, attempts.size() + 1, report, style));
    attempts.push_back(attempt_json(result, attempts.size() + 1, report, style));
  }
  json["extra"] = extra_json(result, report);
  return json;
}

Json run_failure_json(const RunFailure& failure) {
  return {{"name", failure.name},
          {"status", "failed"},
          {"duration", 0},
          {"suite", {run_suite}},
          {"message", failure.sentences.front()},
          {"trace", fmt::format("{}\n", fmt::join(failure.sentences, "\n"))}};
}

Json summary_json(const Json& tests, std::size_t suites, std::int64_t start, std::int64_t taken_ns) {
  std::size_t passed = 0, skipped = 0, failed = 0, flaky = 0;
  for (const Json& test : tests) {
    const auto& how = test.at("status").get_ref<const std::string&>();
    ++(how == "passed" ? passed : how == "skipped" ? skipped : failed);
    flaky += test.value("flaky", false) ? 1 : 0;
  }
  const std::int64_t taken = milliseconds(taken_ns);
  return {{"tests", tests.size()}, {"passed", passed},     {"failed", failed}, {"pending", 0},
          {"skipped", skipped},    {"other", 0},           {"flaky", flaky},   {"suites", suites},
          {"start", start},        {"stop", start + taken}};
}

Json environment_json(const RunHead& head) {
  Json extra{{"run_id", visible_text(head.run_id)},
             {"seed", head.seed},
             {"subject", visible_text(head.subject)},
             {"subject_version", visible_text(head.subject_version)},
             {"suite_version", visible_text(head.suite_version)}};
  if (!head.fault.empty()) extra["fault"] = visible_text(head.fault);
  if (!head.profile.empty()) extra["profile"] = visible_text(head.profile);
  for (const auto& [name, value] : head.machine) extra["machine"][visible_text(name)] = visible_text(value);
  Json environment = Json::object();
  if (!head.git_commit.empty()) environment["commit"] = visible_text(head.git_commit);
  environment["extra"] = std::move(extra);
  return environment;
}

}  // namespace

Json ctrf(const Report& report, const TextStyle& style) {
  Json tests = Json::array();
  std::int64_t taken_ns = 0;
  std::set<std::string_view> suites;
  for (const ExportedCase& exported : exported_cases(report)) {
    tests.push_back(test_json(exported, report, style));
    taken_ns += exported.result->duration_ns;
    suites.insert(exported.result->info.suite);
  }
  for (const RunFailure& failure : run_failures(report)) {
    tests.push_back(run_failure_json(failure));
    suites.insert(run_suite);
  }
  Json results{{"tool", {{"name", "shardproof"}}}};
  results["summary"] = summary_json(tests, suites.size(), unix_time(report.head.started), taken_ns);
  results["tests"] = std::move(tests);
  results["environment"] = environment_json(report.head);
  return {{"reportFormat", "CTRF"}, {"specVersion", "1.0.0"}, {"generatedBy", "shardproof"}, {"results", results}};
}

}  // namespace shardproof::reports
