#include "reports/play/play_counts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

namespace shardproof::reports {

using protocol::PlayResult;

namespace {

/// The properties that distinguish collectives. Each property includes those before it.
enum class Detail : std::uint8_t {
  kind,
  tag,  ///< what the collectives are for
  sizes,  ///< sizes and ranks of the exchange
};

/// Describes a collective and what it exchanges. Texts beyond the compared detail are empty.
struct Signature {
  std::string kind, tag, sizes;
  friend auto operator<=>(const Signature&, const Signature&) = default;
};

/// The number of collectives with each signature that a rank has issued.
using Counts = std::map<Signature, std::size_t>;

Signature signature_of(const fact::Collective& collective, Detail detail) {
  Signature signature{.kind = std::string(to_string(collective.kind)), .tag = {}, .sizes = {}};
  if (detail == Detail::kind) return signature;
  signature.tag = collective.tag;
  if (detail == Detail::tag) return signature;
  if (collective.op != ReduceOp::none) signature.sizes = fmt::format("{}, ", to_string(collective.op));
  signature.sizes += fmt::format("{} -> {} {}, ranks {}", collective.in_count, collective.out_count,
                                 to_string(collective.dtype), fmt::join(collective.group, " "));
  return signature;
}

Counts counts(const Trace& trace, Detail detail) {
  Counts counts;
  for (const Fact& fact : trace.facts) {
    if (const auto* collective = compared_collective(fact)) ++counts[signature_of(*collective, detail)];
  }
  return counts;
}

/// The first signature of which the numbers differ.
std::optional<Signature> different(const Counts& first, const Counts& second) {
  for (const auto& [signature, count] : first) {
    const auto found = second.find(signature);
    if (found == second.end() || found->second != count) return signature;
  }
  const auto surplus = std::ranges::find_if(second, [&](const auto& entry) { return !first.contains(entry.first); });
  return surplus == second.end() ? std::nullopt : std::optional(surplus->first);
}

std::string count_text(const Counts& counts, const Signature& signature) {
  const auto found = counts.find(signature);
  return fmt::format("{}", found == counts.end() ? 0 : found->second);
}

/// The exchanges of the collectives with this kind and tag.
std::string exchanged(const Counts& counts, const Signature& wanted) {
  std::vector<std::string> texts;
  for (const auto& [signature, count] : counts) {
    if (signature.kind == wanted.kind && signature.tag == wanted.tag)
      texts.push_back(fmt::format("{} of {}", count, signature.sizes));
  }
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, "\n"));
}

PlayDifference count_difference(const Counts& first, const Counts& second, const Signature& signature, Detail detail) {
  const std::string what =
      detail == Detail::kind ? signature.kind : fmt::format("{} \"{}\"", signature.kind, signature.tag);
  if (detail == Detail::sizes)
    return {.aspect = Aspect::counts,
            .what = what + ", what is exchanged",
            .values = {exchanged(first, signature), exchanged(second, signature)}};
  return {.aspect = Aspect::counts,
          .what = what + ", how many",
          .values = {count_text(first, signature), count_text(second, signature)}};
}

std::size_t collectives(const std::vector<PlayResult>& ranks) {
  std::size_t count = 0;
  for (const PlayResult& rank : ranks)
    count += static_cast<std::size_t>(std::ranges::count_if(
        rank.times.trace.facts, [](const Fact& fact) { return compared_collective(fact) != nullptr; }));
  return count;
}

}  // namespace

const fact::Collective* compared_collective(const Fact& fact) {
  const auto* collective = std::get_if<fact::Collective>(&fact);
  return collective == nullptr || collective->tag == extension_sizes_tag ? nullptr : collective;
}

CountsComparison compare_counts(const std::vector<PlayResult>& first, const std::vector<PlayResult>& second) {
  CountsComparison comparison{.collectives = collectives(first), .first = {}};
  for (const Detail detail : {Detail::kind, Detail::tag, Detail::sizes}) {
    for (std::size_t rank = 0; rank < first.size(); ++rank) {
      const Counts one = counts(first[rank].times.trace, detail), other = counts(second[rank].times.trace, detail);
      const auto differing = different(one, other);
      if (!differing) continue;
      comparison.first = count_difference(one, other, *differing, detail);
      comparison.first->rank = static_cast<int>(rank);
      return comparison;
    }
  }
  return comparison;
}

}  // namespace shardproof::reports
