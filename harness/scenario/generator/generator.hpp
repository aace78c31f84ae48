// Random small scenarios: a seed gives the same document on every machine. Each scenario is valid, and no engine that
// follows the rules of its kind refuses it. Scenarios capture values only where every engine must compute the same bits
// (exactness.hpp). Pure.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/feature.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// A part of scenarios that has no feature of its own.
enum class Ingredient : std::uint8_t {
  residuals,
  scales,
  frozen_parameters,
  unused_modules,  ///< Modules that take no part in the loss, or do not run.
  repeated_modules,  ///< Modules that run twice.
  evaluation,
  adam,
  costs_of_work,  ///< Costs of work, besides sleeps of modules and collectives.
  choices,  ///< Modules of which a forward runs one.
  several_forwards,  ///< Several forwards before one backward.
  zeroing,  ///< Gradients that become zero, and are not removed.
  kept_gradients,  ///< Gradients that stay after a step.
  half_precision,  ///< f16 in a policy or as the dtype of parameters.
};

std::string_view to_string(Ingredient ingredient);

/// The name of a feature or of an ingredient. Names live as long as the program.
using Trait = std::string_view;

struct Palette {
  std::set<Feature> features;
  std::set<Ingredient> ingredients;
  std::set<Trait> wanted;  ///< Drawn if the rest of a scenario permits it.
  /// Also captures values that may be rounded. Their last bits may differ between right engines.
  bool captures_all = false;
  bool has(Feature feature) const { return features.contains(feature); }
  bool has(Ingredient ingredient) const { return ingredients.contains(ingredient); }
  bool wants(Feature feature) const { return wanted.contains(feature.name()); }
  bool wants(Ingredient ingredient) const { return wanted.contains(to_string(ingredient)); }
};

/// The kinds of engines for which scenarios can be drawn, the preferred one first.
std::vector<std::string_view> drawn_kinds();

/// The features of these names, and the ingredients that they allow, without the features and ingredients in
/// `left_out`. The features are those of this kind of engine. Throws std::invalid_argument for an unknown name. The
/// error lists the known names.
Palette palette(std::string_view kind, std::span<const std::string> features, std::span<const std::string> left_out);

/// The palette of all features of the kind.
Palette full_palette(std::string_view kind, std::span<const std::string> left_out = {});

/// A scenario, and the number of ranks that play it.
struct Staged {
  Scenario scenario;
  int ranks = 1;
};

/// Makes the scenario of a seed for this kind of engine. The seed also chooses one of these numbers of ranks; there
/// must be at least one. The result depends on the arguments alone. Throws std::invalid_argument for a kind that cannot
/// be drawn.
Staged generate(std::string_view kind, std::uint64_t seed, std::span<const int> ranks, const Palette& palette);

/// The same without the check that the scenario is valid, which takes more than a third of the time. For callers that
/// keep few of many.
Staged draw(std::string_view kind, std::uint64_t seed, std::span<const int> ranks, const Palette& palette);

/// The features that an engine must have to play the scenario, each once. Throws std::invalid_argument for a plan of a
/// kind that cannot be drawn.
std::vector<Feature> needed_features(const Scenario& scenario);

/// The features that the scenario needs, and its ingredients.
std::set<Trait> traits(const Scenario& scenario);

/// All traits that scenarios of this palette can have, sorted.
std::vector<Trait> possible_traits(std::string_view kind, const Palette& palette);

/// Whether no scenario for this kind of engine can have both.
bool exclude_each_other(std::string_view kind, Trait one, Trait other);

}  // namespace shardproof::scenario
