#include "reports/diff/gate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/protocol/case_filter.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::reports {

namespace {

constexpr std::string_view measured_class = "measurements_changed", lost_class = "lost_ranks",
                           clause_class = "clause_weaker";

/// In the order of the result.
constexpr std::array<std::string_view, 12> classes{"new_failure",    clause_class,    lost_class,     "removed_case",
                                                   "newly_skipped",  "newly_not_run", "newly_waived", measured_class,
                                                   "status_changed", "still_failing", "fixed",        "new_case"};

constexpr std::array<std::string_view, 7> regressions{"new_failure",   lost_class,     "removed_case", "newly_skipped",
                                                      "newly_not_run", "newly_waived", measured_class};

bool contains(const auto& names, std::string_view name) { return std::ranges::find(names, name) != std::end(names); }

std::vector<std::string_view> forbidden_classes(const Gate& gate) {
  const bool are_regressions = contains(gate.fail_on, regression_class);
  std::vector<std::string_view> forbidden;
  for (const std::string_view change : classes) {
    if (contains(gate.fail_on, change) || (are_regressions && contains(regressions, change)))
      forbidden.push_back(change);
  }
  return forbidden;
}

/// The changes of cases that a user may allow. Only a waiver excuses a failure.
constexpr std::array<std::string_view, 5> allowable{lost_class, "removed_case", "newly_skipped", "newly_not_run",
                                                    "newly_waived"};

bool matches_clause(const ClauseChange& change, const std::string& glob) {
  return protocol::matches_id(change.clause, glob) || protocol::matches_id(name_of(change), glob);
}

/// A misspelt pattern allows nothing, and a pattern for a change that is merged by now is out of date.
std::vector<std::string> unmatched_patterns(const Gate& gate, const Diff& diff, const Report& before,
                                            const Report& after) {
  std::vector<std::string> unmatched;
  for (const std::string& pattern : gate.allow) {
    const auto is_of_case = [&](const CaseResult& result) { return protocol::matches(result.info, pattern); };
    const auto is_of_clause = [&](const ClauseChange& change) { return matches_clause(change, pattern); };
    if (std::ranges::none_of(before.cases, is_of_case) && std::ranges::none_of(after.cases, is_of_case) &&
        std::ranges::none_of(diff.clauses, is_of_clause))
      unmatched.push_back(pattern);
  }
  return unmatched;
}

std::set<std::string_view> allowed_ids(const Gate& gate, const Report& before, const Report& after) {
  std::set<std::string_view> allowed;
  if (gate.allow.empty()) return allowed;
  for (const Report* report : {&before, &after}) {
    for (const CaseResult& result : report->cases) {
      const auto matches = [&](const std::string& filter) { return protocol::matches(result.info, filter); };
      if (std::ranges::any_of(gate.allow, matches)) allowed.insert(result.info.id);
    }
  }
  return allowed;
}

bool is_of(const CaseChange& change, std::string_view wanted, bool is_lost_forbidden) {
  if (wanted == lost_class) return change.lost_ranks;
  if (wanted == measured_class) return !change.measurements.empty();
  if (change.lost_ranks && is_lost_forbidden && contains(allowable, wanted)) return false;  // named as lost
  return to_string(change.change) == wanted;
}

}  // namespace

std::span<const std::string_view> gate_classes() { return classes; }

GateResult apply(const Gate& gate, const Diff& diff, const Report& before, const Report& after) {
  GateResult result{
      .classes = forbidden_classes(gate), .found = {}, .unmatched = unmatched_patterns(gate, diff, before, after)};
  const bool is_lost_forbidden = contains(result.classes, lost_class);
  const std::set<std::string_view> allowed = allowed_ids(gate, before, after);
  for (const std::string_view wanted : result.classes) {
    ForbiddenChanges found{.change = wanted, .names = {}};
    if (wanted == clause_class) {
      for (const ClauseChange& change : diff.clauses) {
        const auto matches = [&](const std::string& glob) { return matches_clause(change, glob); };
        const bool is_allowed = change.after != ClauseStatus::not_met && std::ranges::any_of(gate.allow, matches);
        if (change.is_weaker() && !is_allowed) found.names.push_back(name_of(change));
      }
    } else {
      for (const CaseChange& change : diff.changes) {
        const bool is_compared =
            change.not_compared.empty() && (wanted != measured_class || diff.measurements_not_compared.empty());
        const bool is_allowed = contains(allowable, wanted) && allowed.contains(change.id);
        if (is_compared && !is_allowed && is_of(change, wanted, is_lost_forbidden)) found.names.push_back(change.id);
      }
    }
    if (!found.names.empty()) result.found.push_back(std::move(found));
  }
  return result;
}

nlohmann::ordered_json to_json(const GateResult& result) {
  nlohmann::ordered_json found = nlohmann::ordered_json::object();
  for (const ForbiddenChanges& changes : result.found) found[std::string(changes.change)] = changes.names;
  return {{"passed", result.is_passed()},
          {"classes", result.classes},
          {"found", std::move(found)},
          {"unmatched", result.unmatched}};
}

std::string to_text(const GateResult& result, const Diff& diff, bool color) {
  const Paint paint(color);
  std::string text;
  for (const std::string& sentence : diff.not_compared)
    text += fmt::format("not compared: {}\n", printable_line(sentence));
  for (const std::string& pattern : result.unmatched)
    text += fmt::format("warning: --allow '{}' matches no case and no clause: correct it or remove it\n",
                        printable_line(pattern));
  for (const auto& [change, names] : result.found)
    text += fmt::format("forbidden: {} {}: {}\n", names.size(), change,
                        printable_line(reports::few_of(std::vector<std::string_view>(names.begin(), names.end()))));
  return text + (result.is_passed() ? fmt::format("gate: {}, none of {}\n", paint(Hue::green, "passed"),
                                                  fmt::join(result.classes, ", "))
                                    : fmt::format("gate: {}\n", paint(Hue::red, "failed")));
}

}  // namespace shardproof::reports
