#include "harness/base/closest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace shardproof::base {
namespace {

bool is_equal_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j - 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string closest(const std::set<std::string>& candidates, std::string_view asked) {
  std::string best;
  std::size_t least = asked.size() / 2 + 1;
  for (const std::string& candidate : candidates) {
    if (is_equal_without_case(candidate, asked)) return candidate;
    const std::size_t distance = edit_distance(candidate, asked);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

std::string closest_hint(const std::set<std::string>& candidates, std::string_view asked, char quote) {
  const std::string near = closest(candidates, asked);
  return near.empty() ? std::string() : fmt::format("closest is {0}{1}{0}; ", quote, near);
}

std::string unknown_name(std::string_view what, std::string_view asked, std::span<const std::string> known) {
  return fmt::format("unknown {} '{}'; {}known: {}", what, asked, closest_hint({known.begin(), known.end()}, asked),
                     fmt::join(known, ", "));
}

std::string closest_or_all(const std::set<std::string>& candidates, std::string_view asked) {
  constexpr std::size_t most = 12;
  if (candidates.empty()) return "there is none";
  if (const std::string near = closest(candidates, asked); !near.empty()) return fmt::format("closest is \"{}\"", near);
  std::string names;
  std::size_t said = 0;
  for (const std::string& candidate : candidates) {
    if (said++ < most) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", candidate);
  }
  const std::size_t more = candidates.size() - std::min(candidates.size(), most);
  return fmt::format("there {} {}{}", candidates.size() == 1 ? "is" : "are", names,
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace shardproof::base
