#include "harness/scenario/generator/pairwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "harness/scenario/generator/dice.hpp"

namespace shardproof::scenario {

PairwiseRows::PairwiseRows(std::vector<Trait> traits, const OfPair& fit, const OfPair& is_asked)
    : traits_(std::move(traits)), fitting_(traits_.size()), open_(traits_.size()) {
  if (traits_.size() > 64)
    throw std::invalid_argument(fmt::format("pairwise rows: {} traits, at most 64 are possible", traits_.size()));
  for (std::size_t one = 0; one < traits_.size(); ++one) {
    for (std::size_t other = 0; other < traits_.size(); ++other) {
      if (one == other || !fit(traits_[one], traits_[other])) continue;
      fitting_[one] |= Mask{1} << other;
      if (is_asked(traits_[one], traits_[other])) open_[one] |= Mask{1} << other;
    }
  }
}

// Greedy: a row begins with the trait that is in most open pairs, and then takes the trait that closes most of them.
std::vector<Trait> PairwiseRows::next(std::size_t most, const std::function<bool(Trait)>& allowed, std::uint64_t seed) {
  Dice dice(seed);
  std::vector<std::size_t> order;
  Mask candidates = 0;
  for (std::size_t i = 0; i < traits_.size(); ++i) {
    if (!allowed(traits_[i])) continue;
    order.push_back(i);
    candidates |= Mask{1} << i;
  }
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(dice.between(0, static_cast<int>(i) - 1))]);

  std::vector<std::size_t> row;
  Mask chosen = 0;
  while (row.size() < most && candidates != 0) {
    std::size_t best = traits_.size();
    int gain = -1;
    for (const std::size_t i : order) {
      if ((candidates >> i & 1) == 0) continue;
      const int gained = std::popcount(open_[i] & (row.empty() ? candidates : chosen));
      if (gained > gain) std::tie(best, gain) = std::pair(i, gained);
    }
    row.push_back(best);
    chosen |= Mask{1} << best;
    candidates &= fitting_[best];
  }
  std::vector<Trait> names;
  for (const std::size_t i : row) {
    open_[i] &= ~chosen;
    names.push_back(traits_[i]);
  }
  return names;
}

bool PairwiseRows::is_complete() const {
  return std::ranges::all_of(open_, [](Mask mask) { return mask == 0; });
}

}  // namespace shardproof::scenario
