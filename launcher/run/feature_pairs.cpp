#include "launcher/run/feature_pairs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace shardproof::launcher {

namespace {

using Pair = std::pair<std::string, std::string>;

void add_pairs(std::set<Pair>& pairs, const std::vector<std::string>& features) {
  for (const std::string& one : features) {
    for (const std::string& other : features) {
      if (one < other) pairs.emplace(one, other);
    }
  }
}

}  // namespace

std::vector<FeaturePairs> feature_pairs(const reports::Report& report, std::span<const protocol::Combinable> kinds) {
  std::vector<FeaturePairs> all;
  for (const protocol::Combinable& kind : kinds) {
    std::set<Pair> played, possible;
    for (const reports::CaseResult& result : report.cases) {
      if (result.verdict == reports::Verdict::passed && result.info.engine == kind.engine)
        add_pairs(played, result.combined);
    }
    if (played.empty()) continue;
    add_pairs(possible, kind.features);
    for (const Pair& pair : kind.excluded) possible.erase(pair);
    FeaturePairs& pairs =
        all.emplace_back(FeaturePairs{.engine = kind.engine, .possible = possible.size(), .missing = {}});
    std::ranges::set_difference(possible, played, std::back_inserter(pairs.missing));
  }
  return all;
}

std::string text_of(std::span<const FeaturePairs> all) {
  constexpr std::size_t few = 20;  // one of so many
  std::vector<std::string> texts;
  for (const FeaturePairs& pairs : all) {
    std::string& text = texts.emplace_back(fmt::format("{} {} of {}", pairs.engine, pairs.played(), pairs.possible));
    if (pairs.missing.empty() || pairs.missing.size() * few > pairs.possible) continue;
    std::vector<std::string> missing;
    for (const auto& [one, other] : pairs.missing) missing.push_back(one + " with " + other);
    text += fmt::format(" (not {})", fmt::join(missing, ", "));
  }
  return texts.empty() ? "" : fmt::format("pairs of features played together: {}", fmt::join(texts, ", "));
}

}  // namespace shardproof::launcher
