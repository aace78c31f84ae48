// Random small scenarios: a seed gives the same document on every machine. Each scenario is valid, and no engine that follows the rules of
// its kind refuses it. Scenarios capture values only where every engine must compute the same bits (exactness.hpp). Pure.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.hpp"
#include "harness/subject/feature.hpp"

namespace shardproof::scenario {

/// A part of scenarios that has no feature of its own.
enum class Ingredient : std::uint8_t {
  residuals,
  scales,
  frozen_parameters,
  unused_modules,  ///< modules that take no part in the loss, or do not run
  repeated_modules,  ///< modules that run twice
  evaluation,
  adam,
  costs_of_work,  ///< besides sleeps of modules and collectives
};

std::string_view to_string(Ingredient ingredient);

struct Palette {
  std::set<Feature> features;
  std::set<Ingredient> ingredients;
  bool has(Feature feature) const { return features.contains(feature); }
  bool has(Ingredient ingredient) const { return ingredients.contains(ingredient); }
};

/// The features of these names, and the ingredients that they allow, without the features and ingredients in `left_out`. The features are
/// those of the kind of engine that scenarios are drawn for. Throws std::invalid_argument for an unknown name. The error lists the known
/// names.
Palette palette(std::span<const std::string> features, std::span<const std::string> left_out);

/// A scenario, and the number of ranks that play it.
struct Staged {
  Scenario scenario;
  int ranks = 1;
};

/// Makes the scenario of a seed. The seed also chooses one of these numbers of ranks; there must be at least one.
Staged generate(std::uint64_t seed, std::span<const int> ranks, const Palette& palette);

}  // namespace shardproof::scenario
