#include "harness/protocol/case_filter.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <set>
#include <stdexcept>

namespace shardproof::protocol {

namespace {

bool is_tag(std::string_view filter) {
  return filter.size() > 2 && filter.front() == '[' && filter.back() == ']' &&
         filter.substr(1, filter.size() - 2).find_first_of("[]") == std::string_view::npos;
}

/// `*` matches any run of characters, `?` exactly one character. The search goes back only to the last star, so its
/// worst case is the pattern's length times the text's length.
bool glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

bool matches_id(std::string_view id, std::string_view pattern) {
  return glob(pattern, id) || glob(pattern, id.substr(0, id.find('[')));
}

bool matches(const CaseInfo& info, std::string_view filter) {
  if (is_tag(filter)) {
    const auto tag = filter.substr(1, filter.size() - 2);
    return std::find(info.tags.begin(), info.tags.end(), tag) != info.tags.end();
  }
  return (!filter.empty() && filter == info.suite) || matches_id(info.id, filter);
}

std::vector<CaseInfo> select(std::span<const CaseInfo> cases, std::span<const std::string> filters) {
  if (filters.empty()) return {cases.begin(), cases.end()};
  for (const auto& filter : filters) {
    if (std::none_of(cases.begin(), cases.end(), [&](const CaseInfo& info) { return matches(info, filter); })) {
      std::set<std::string> suites;
      for (const auto& info : cases) suites.insert(info.suite);
      throw std::invalid_argument(
          fmt::format("filter \"{}\" matches none of {} cases (suites: {}); a filter is a suite, an id, a glob over "
                      "ids, or a [tag]",
                      filter, cases.size(), suites.empty() ? "none" : fmt::format("{}", fmt::join(suites, ", "))));
    }
  }
  std::vector<CaseInfo> selected;
  for (const auto& info : cases) {
    if (std::any_of(filters.begin(), filters.end(), [&](const std::string& filter) { return matches(info, filter); }))
      selected.push_back(info);
  }
  return selected;
}

}  // namespace shardproof::protocol
