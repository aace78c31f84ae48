#include "reports/explain/causes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <map>
#include <set>
#include <string_view>

#include "harness/protocol/failure_text.hpp"

namespace shardproof::reports {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Whether the point is between digits.
bool is_fraction(std::string_view text, std::size_t point) {
  return text[point] == '.' && point + 1 < text.size() && is_digit(text[point + 1]);
}

/// The text without numbers, quoted names and remarks in parentheses, which differ from case to case.
std::string shape_of(std::string_view text) {
  std::string shape;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char closing = text[i] == '"' ? '"' : text[i] == '(' ? ')' : '\0';
    const std::size_t end = closing == '\0' ? std::string_view::npos : text.find(closing, i + 1);
    if (end != std::string_view::npos) {
      shape += {text[i], closing};
      i = end;
    } else if (is_digit(text[i])) {
      shape += '#';
      while (i + 1 < text.size() && (is_digit(text[i + 1]) || is_fraction(text, i + 1))) ++i;
    } else {
      shape += text[i];
    }
  }
  return shape;
}

/// The missing wait, if the text names one, else the whole text.
std::string_view reason_in(std::string_view text) {
  const std::size_t found = text.find(protocol::missing_wait);
  return found == std::string_view::npos ? text : text.substr(found);
}

/// Checks of the harness and exceptions have the place of the case, or of an assertion before them.
bool has_own_place(const protocol::event::AssertionFailed& failure) {
  return !failure.macro.empty() && failure.macro != protocol::equal_collectives_check &&
         failure.macro != protocol::freed_memory_check;
}

}  // namespace

std::string cause_of(const protocol::event::AssertionFailed& failure) {
  // The expression of an assertion says what failed. For all other failures, the text says it.
  const std::string what = failure.expression.empty() ? shape_of(reason_in(failure.expansion)) : failure.expression;
  const std::string place = has_own_place(failure) ? fmt::format("{}:{}", failure.file, failure.line) : "";
  // The first clause is the failure's own. Others follow from what the case is about.
  return fmt::format("{}\n{}\n{}\n{}", failure.clauses.empty() ? "" : failure.clauses.front(), failure.macro, place,
                     what);
}

std::string cause_of(const CaseResult& result) {
  const std::string verdict(to_string(result.verdict));
  if (result.verdict == Verdict::crashed || result.verdict == Verdict::hung)
    return fmt::format("{}\n{}\n{}\n{}", verdict, result.info.id, result.repetition, result.attempt);
  if (!result.failures.empty()) return verdict + "\n" + cause_of(result.failures.front().assertion);
  std::set<std::string> reasons;
  for (const std::string& note : result.notes) reasons.insert(shape_of(note));
  for (const auto& [rank, reason] : result.reasons) reasons.insert(shape_of(reason));
  return fmt::format("{}\n{}", verdict, fmt::join(reasons, "\n"));
}

std::vector<CauseGroup> by_cause(std::span<const CaseResult* const> cases) {
  std::vector<CauseGroup> groups;
  std::map<std::string, std::size_t> place_of;  // by cause: the index in `groups`
  for (const CaseResult* const result : cases) {
    const auto [place, is_new] = place_of.try_emplace(cause_of(*result), groups.size());
    if (is_new) groups.push_back({.shown = result, .others = {}});
    else groups[place->second].others.push_back(result);
  }
  return groups;
}

}  // namespace shardproof::reports
