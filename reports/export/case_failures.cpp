#include "reports/export/case_failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "harness/base/rank_list.hpp"
#include "reports/explain/causes.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::reports {

namespace {

bool look_alike(const protocol::event::AssertionFailed& a, const protocol::event::AssertionFailed& b) {
  return a.line == b.line && a.file == b.file && a.macro == b.macro && a.expression == b.expression &&
         a.expansion == b.expansion && a.messages == b.messages;
}

std::string text_of(const protocol::event::AssertionFailed& failure) {
  const bool says_only = !failure.macro.empty() && failure.expression.empty();  // FAIL and FAIL_CHECK
  const bool says_first = says_only && failure.expansion.empty() && !failure.messages.empty();
  std::string text = failure.macro.empty() ? std::string("exception outside an assertion\n")
                     : says_first          ? failure.messages.front() + "\n"
                     : says_only           ? failure.expansion + "\n"
                                           : fmt::format("{}( {} )\n", failure.macro, failure.expression);
  if (!says_only && !failure.expansion.empty() && failure.expansion != failure.expression)
    text += indented(failure.expansion, "  ");
  for (auto i = says_first ? std::size_t{1} : 0; i < failure.messages.size(); ++i)
    text += indented(failure.messages[i], "  ");
  // An exception has no place of its own.
  const bool is_exception = failure.macro.empty();
  if (!failure.file.empty())
    text += fmt::format("  {} {}{}{}\n", is_exception ? "after" : "at", failure.file,
                        failure.line > 0 ? fmt::format(":{}", failure.line) : "",
                        is_exception ? ", the last assertion before it or the start of the case" : "");
  return indented(printable(text), "  ");
}

std::string clauses_text(const std::vector<std::string>& clauses, const TextStyle& style,
                         std::set<std::string>& seen_clauses) {
  std::string text;
  for (const std::string& clause : clauses) {
    const auto known = style.clauses.find(clause);
    const bool is_new = seen_clauses.insert(clause).second;
    text += known == style.clauses.end() || !is_new
                ? fmt::format("  {}\n", printable_line(clause))
                : fmt::format("  {}  {}\n", printable_line(clause), printable_line(known->second));
  }
  return text;
}

}  // namespace

CaseFailures::CaseFailures(const CaseResult& result, bool all) : left_out_(result.failures_left_out) {
  std::vector<Shown> shared;
  for (const Failure& failure : result.failures) {
    const auto found = std::ranges::find_if(shared, [&](const Shown& other) {
      return look_alike(*other.failure, failure.assertion) &&
             std::ranges::find(other.ranks, failure.rank) == other.ranks.end();
    });
    if (found == shared.end()) shared.push_back({.ranks = {failure.rank}, .failure = &failure.assertion});
    else found->ranks.insert(std::ranges::upper_bound(found->ranks, failure.rank), failure.rank);
  }
  is_alone_ = shared.size() == 1 && shared.front().ranks.size() == 1;
  if (!all) {
    fold(shared);
    return;
  }
  for (const Shown& one : shared) covered_.push_back(one.failure);
  shown_ = std::move(shared);
}

void CaseFailures::fold(const std::vector<Shown>& shared) {
  constexpr std::size_t limit = 10;
  std::map<std::string, std::size_t> place_of;  // by cause: in shown_
  for (const Shown& one : shared) {
    const auto [place, is_new] = place_of.try_emplace(cause_of(*one.failure), shown_.size());
    if (is_new && shown_.size() < limit) {
      shown_.push_back(one);
    } else if (place->second < shown_.size()) {
      Shown& first = shown_[place->second];
      first.alike += one.ranks.size();
      std::ranges::set_difference(one.ranks, first.ranks, std::inserter(first.others, first.others.end()));
    } else {
      left_out_ += one.ranks.size();
      continue;
    }
    covered_.push_back(one.failure);
  }
}

std::string CaseFailures::text(const TextStyle& style, std::set<std::string>* seen_clauses) const {
  const Paint paint(style.color);
  std::string text;
  for (std::size_t i = 0; i < shown_.size(); ++i) {
    const Shown& one = shown_[i];
    if (!is_alone_) text += fmt::format("  {}\n", paint(Hue::faint, base::rank_list(one.ranks)));
    text += text_of(*one.failure);
    if (one.alike > 0) {
      const std::vector<int> others(one.others.begin(), one.others.end());
      text += fmt::format("    and {} more like it{}\n", one.alike,
                          others.empty() ? "" : ", on " + base::rank_list(others));
    }
    const bool goes_on = i + 1 < shown_.size() && shown_[i + 1].failure->clauses == one.failure->clauses;
    if (seen_clauses != nullptr && !goes_on) text += clauses_text(one.failure->clauses, style, *seen_clauses);
  }
  if (left_out_ > 0) text += fmt::format("  and {} more\n", left_out_);
  return text;
}

}  // namespace shardproof::reports
