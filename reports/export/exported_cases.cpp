#include "reports/export/exported_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "reports/export/foreign_text.hpp"
#include "reports/export/verdict_text.hpp"
#include "reports/model/findings.hpp"

namespace shardproof::reports {

namespace {

constexpr std::size_t line_limit = 500;

const WorldResult& world_of(const CaseResult& result, const Report& report) {
  return report.worlds.at(static_cast<std::size_t>(result.world));
}

std::string assertion_text(const Failure& failure, const Placement& placement) {
  const protocol::event::AssertionFailed& assertion = failure.assertion;
  const std::string& said =
      assertion.expansion.empty() && !assertion.messages.empty() ? assertion.messages.front() : assertion.expansion;
  std::string text = rank_text(placement, failure.rank) + ": ";
  if (assertion.macro.empty() || assertion.expression.empty()) return text + said;
  text += fmt::format("{}( {} )", assertion.macro, assertion.expression);
  return assertion.expansion.empty() || assertion.expansion == assertion.expression
             ? text
             : fmt::format("{} with {}", text, assertion.expansion);
}

/// The reason of a rank that explains the verdict. A released rank explains nothing, unless no other rank has a reason.
std::string reason_text(const CaseResult& result, const Placement& placement) {
  const auto explains = [&](const auto& reason) {
    return result.ranks.at(static_cast<std::size_t>(reason.first)).outcome != protocol::Outcome::released;
  };
  auto found = std::ranges::find_if(result.reasons, explains);
  if (found == result.reasons.end()) found = result.reasons.begin();
  if (found == result.reasons.end()) return std::string(to_string(result.verdict));
  return fmt::format("{}: {}", rank_text(placement, found->first), found->second);
}

std::string cause_of_verdict(const CaseResult& result, const std::string& explanation, const Placement& placement) {
  const bool is_end = result.verdict == Verdict::crashed || result.verdict == Verdict::hung;
  if (is_end && !explanation.empty()) return explanation;
  if (!is_end && !result.notes.empty()) return result.notes.front();
  if (!is_end && !result.failures.empty()) return assertion_text(result.failures.front(), placement);
  return reason_text(result, placement);
}

std::string_view meaning(ExitCode code) {
  switch (code) {
    case infrastructure: return "a rank could not start, join or stay in its world";
    case crashed_or_hung: return "a rank crashed or hung, outside the cases that count";
    case evidence_unusable: return "nothing ran";
    default: return "see its summary";
  }
}

}  // namespace

ExportedAs exported_as(const CaseResult& result) {
  if (result.waiver >= 0 || result.verdict == Verdict::skipped) return ExportedAs::skipped;
  if (result.verdict == Verdict::passed) return ExportedAs::passed;
  return result.verdict == Verdict::failed ? ExportedAs::failed : ExportedAs::error;
}

std::vector<ExportedCase> exported_cases(const Report& report) {
  const std::vector<std::string> flaky_ids = report.flaky();
  const std::set<std::string_view> flaky(flaky_ids.begin(), flaky_ids.end());
  std::vector<ExportedCase> cases;
  for (std::span<const CaseResult> rest = report.cases; !rest.empty();) {
    const auto runs = repetitions(rest);
    rest = rest.subspan(runs.size());
    const bool is_flaky = flaky.contains(runs.front().info.id);
    std::vector<const CaseResult*> earlier;
    for (const CaseResult& result : runs) {
      if (result.superseded) earlier.push_back(&result);
      else cases.push_back({.result = &result, .earlier = std::exchange(earlier, {}), .is_flaky = is_flaky});
    }
  }
  return cases;
}

std::string exported_name(const CaseResult& result) {
  const bool is_attempt = result.attempt > 0 || result.superseded;
  return one_line(result.info.id + (is_attempt ? "" : repetition_text(result)));
}

std::string cause_line(const CaseResult& result, const Report& report) {
  const WorldResult& world = world_of(result, report);
  return cause_line(result, world.explanation, world.placement);
}

std::string cause_line(const CaseResult& result, const std::string& explanation, const Placement& placement) {
  return one_line(cause_of_verdict(result, explanation, placement), line_limit);
}

SourcePlace place_of(const CaseResult& result) {
  for (const Failure& failure : result.failures) {
    if (!failure.assertion.file.empty()) return {.file = failure.assertion.file, .line = failure.assertion.line};
  }
  return {.file = result.info.file, .line = result.info.line};
}

std::string excuse_line(const CaseResult& result, const Report& report) {
  return one_line(result.waiver >= 0 ? waiver_text(report.head.waivers.at(static_cast<std::size_t>(result.waiver)))
                                     : skip_text(result),
                  line_limit);
}

std::vector<RunFailure> run_failures(const Report& report) {
  std::vector<RunFailure> failures;
  const auto add = [&](std::string name, std::vector<std::string> sentences) {
    for (std::string& sentence : sentences) sentence = one_line(sentence);
    if (!sentences.empty()) failures.push_back({std::move(name), std::move(sentences)});
  };
  add("demands on the run", findings(report));
  std::vector<std::string> defects;
  for (const WorldResult& world : report.worlds) {
    for (const std::string& defect : world.defects)
      defects.push_back(fmt::format("world {}: {}", world.number, defect));
  }
  add("evidence", std::move(defects));
  const ExitCode code = exit_code(report);
  const bool is_shown = !failures.empty() || std::ranges::any_of(report.cases, [](const CaseResult& result) {
    return !result.superseded && exported_as(result) >= ExportedAs::failed;
  });
  if (code != all_passed && !is_shown)
    add("end of the run", {fmt::format("exit code {}: {}", static_cast<int>(code), meaning(code))});
  return failures;
}

}  // namespace shardproof::reports
