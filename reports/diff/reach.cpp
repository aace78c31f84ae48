#include "reports/diff/reach.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "reports/export/command_line_words.hpp"

namespace shardproof::reports {

namespace {

/// The numbers in the --ranks options of a command line.
std::set<int> asked_ranks(const std::vector<std::string>& argv) {
  std::set<int> asked;
  for (const std::string& word : words_given(argv, std::array<std::string_view, 1>{"--ranks"}, {})) {
    // `--ranks` itself has no digit, and `--ranks=1,2` has its numbers after the equals sign.
    const char* const end = word.data() + word.size();
    for (const char* at = word.data(); at < end;) {
      int number = 0;
      const auto [rest, error] = std::from_chars(at, end, number);
      if (error == std::errc{}) asked.insert(number);
      at = rest == at ? at + 1 : rest;
    }
  }
  return asked;
}

std::string ranks_text(const std::set<int>& asked) {
  return asked.empty() ? "all" : fmt::format("{}", fmt::join(asked, ","));
}

std::string difference(std::string_view what, const auto& before, const auto& after) {
  return before == after ? std::string() : fmt::format("{}: {} -> {}", what, before, after);
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

}  // namespace

Reach::Sizes Reach::sizes_of(const Report& report) {
  Sizes sizes{.asked = asked_ranks(report.head.argv), .started = {}};
  for (const WorldResult& world : report.worlds) sizes.started.insert(world.size);
  return sizes;
}

Reach::Reach(const Report& before, const Report& after)
    : profiles_(difference("profile", or_none(before.head.profile), or_none(after.head.profile))),
      seeds_(difference("seed", before.head.seed, after.head.seed)),
      before_(sizes_of(before)),
      after_(sizes_of(after)) {
  ranks_ = difference("--ranks", ranks_text(before_.asked), ranks_text(after_.asked));
}

std::string Reach::why_only_one(int ranks, const Sizes& other) const {
  if (!profiles_.empty()) return profiles_;
  return other.contains(ranks) ? std::string() : ranks_;
}

}  // namespace shardproof::reports
