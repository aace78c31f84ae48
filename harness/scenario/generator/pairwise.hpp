// Rows of traits that scenarios are drawn with, so that any two traits that can be combined are together in some row. Most defects need no
// more than two features to meet. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/scenario/generator/generator.hpp"

namespace shardproof::scenario {

class PairwiseRows {
 public:
  using OfPair = std::function<bool(Trait, Trait)>;

  /// At most 64 traits. `fit` says whether a row can have two traits, and `is_asked` whether some row must have both. Both are symmetric.
  /// Throws std::invalid_argument for more traits.
  PairwiseRows(std::vector<Trait> traits, const OfPair& fit, const OfPair& is_asked);

  /// The next row, of `most` traits at most: it has as many pairs as it can hold that are asked for and that no row had before. The seed
  /// decides between traits that are equally good: once all pairs have been in a row, rows are random. `allowed` says which traits the row
  /// may have.
  std::vector<Trait> next(std::size_t most, const std::function<bool(Trait)>& allowed, std::uint64_t seed);

  /// Whether each pair that is asked for has been in a row.
  bool is_complete() const;

 private:
  using Mask = std::uint64_t;  ///< of traits, by their place

  std::vector<Trait> traits_;
  std::vector<Mask> fitting_, open_;  ///< by trait: those that it fits, and those with which it has to be in a row still
};

}  // namespace shardproof::scenario
