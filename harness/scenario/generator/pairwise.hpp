// Makes rows of traits for drawing scenarios, so that any two traits that fit together are together in some row. Most
// defects need no more than two features. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/scenario/generator/generator.hpp"

namespace shardproof::scenario {

class PairwiseRows {
 public:
  using OfPair = std::function<bool(Trait, Trait)>;

  /// `fit`: whether a row can have two traits. `is_asked`: whether some row must have both. Both are symmetric. Throws
  /// std::invalid_argument for more than 64 traits.
  PairwiseRows(std::vector<Trait> traits, const OfPair& fit, const OfPair& is_asked);

  /// The next row, of at most `most` traits. It holds as many asked pairs as it can that no earlier row had. The seed
  /// decides between traits that are equally good: once all pairs have been in a row, rows are random. `allowed` tells
  /// which traits the row may have.
  std::vector<Trait> next(std::size_t most, const std::function<bool(Trait)>& allowed, std::uint64_t seed);

  /// Whether each asked pair has been in a row.
  bool is_complete() const;

 private:
  using Mask = std::uint64_t;  ///< a bit for each trait, by its position

  std::vector<Trait> traits_;
  /// By trait: the traits that it fits, and the traits with which it must still be in a row.
  std::vector<Mask> fitting_, open_;
};

}  // namespace shardproof::scenario
