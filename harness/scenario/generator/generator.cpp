#include "harness/scenario/generator/generator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "harness/scenario/generator/engine_generator.hpp"
#include "harness/scenario/generator/ingredients.hpp"
#include "harness/scenario/generator/parts.hpp"

namespace shardproof::scenario {

namespace {

// Whether only engines that claim `module_groups` know the ingredient.
bool is_of_modules(Ingredient ingredient) {
  switch (ingredient) {
    case Ingredient::residuals:
    case Ingredient::scales:
    case Ingredient::frozen_parameters:
    case Ingredient::unused_modules:
    case Ingredient::repeated_modules:
    case Ingredient::choices: return true;
    case Ingredient::evaluation:
    case Ingredient::adam:
    case Ingredient::costs_of_work:
    case Ingredient::several_forwards:
    case Ingredient::zeroing:
    case Ingredient::kept_gradients:
    case Ingredient::half_precision: return false;
  }
  return false;
}

}  // namespace

Palette palette(std::string_view engine, std::span<const std::string> features, std::span<const std::string> left_out) {
  Palette palette;
  const EngineGenerator& generator = engine_generator(engine);
  const EngineKind& kind = *find_engine_kind(engine);
  const auto unknown = [](const std::string& name, const std::vector<std::string_view>& known) {
    return std::invalid_argument(fmt::format("\"{}\" is unknown; there is {}", name, fmt::join(known, ", ")));
  };
  for (const std::string& name : features) {
    const auto feature = kind.find_feature(name);
    if (!feature) throw unknown(name, kind.feature_names());
    palette.features.insert(*feature);
  }
  const bool has_modules = palette.has(Feature::module_groups);
  for (const Ingredient ingredient : all_ingredients) {
    if (has_modules || !is_of_modules(ingredient)) palette.ingredients.insert(ingredient);
  }
  palette = generator.fitted(std::move(palette));
  for (const std::string& name : left_out) {
    const auto feature = kind.find_feature(name);
    const auto ingredient = std::ranges::find(all_ingredients, name, [](Ingredient each) { return to_string(each); });
    if (feature) palette.features.erase(*feature);
    else if (ingredient != all_ingredients.end()) palette.ingredients.erase(*ingredient);
    else {
      std::vector<std::string_view> known = kind.feature_names();
      std::ranges::transform(all_ingredients, std::back_inserter(known),
                             [](Ingredient each) { return to_string(each); });
      throw unknown(name, known);
    }
  }
  return palette;
}

Palette full_palette(std::string_view kind, std::span<const std::string> left_out) {
  const std::vector<std::string_view> names = find_engine_kind(engine_generator(kind).kind())->feature_names();
  return palette(kind, std::vector<std::string>(names.begin(), names.end()), left_out);
}

std::set<Trait> traits(const Scenario& scenario) {
  std::set<Trait> all;
  for (const Feature feature : needed_features(scenario)) all.insert(feature.name());
  for (const Ingredient ingredient : all_ingredients) {
    if (has(scenario, ingredient)) all.insert(to_string(ingredient));
  }
  return all;
}

std::vector<Trait> possible_traits(std::string_view kind, const Palette& palette) {
  const Palette fitted = engine_generator(kind).fitted(palette);
  std::set<Trait> all;
  for (const Feature feature : fitted.features) all.insert(feature.name());
  for (const Ingredient ingredient : fitted.ingredients) all.insert(to_string(ingredient));
  return {all.begin(), all.end()};
}

bool exclude_each_other(std::string_view kind, Trait one, Trait other) {
  const auto is_it = [&](const std::pair<Trait, Trait>& pair) {
    return (pair.first == one && pair.second == other) || (pair.first == other && pair.second == one);
  };
  return std::ranges::any_of(engine_generator(kind).excluded_pairs(), is_it);
}

Staged draw(std::string_view kind, std::uint64_t seed, std::span<const int> ranks, const Palette& palette) {
  Dice dice(seed);
  Staged staged{.scenario = {}, .ranks = dice.one_of(std::vector<int>(ranks.begin(), ranks.end()))};
  if (staged.ranks == 1 && dice.chance(15)) staged.scenario.device.imagined_ranks = dice.between(2, 4);
  draw_model(staged.scenario, dice, palette);
  draw_plan(staged.scenario, engine_generator(kind), std::max(staged.ranks, staged.scenario.device.imagined_ranks),
            dice, palette);
  draw_costs(staged.scenario, dice, palette);
  draw_script(staged.scenario, staged.ranks, dice, palette);
  return staged;
}

Staged generate(std::string_view kind, std::uint64_t seed, std::span<const int> ranks, const Palette& palette) {
  Staged staged = draw(kind, seed, ranks, palette);
  validate(staged.scenario);
  return staged;
}

}  // namespace shardproof::scenario
