#include "harness/scenario/generator/generator.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "harness/scenario/generator/engine_generator.hpp"
#include "harness/scenario/generator/parts.hpp"

namespace shardproof::scenario {

namespace {

constexpr std::array<std::pair<Ingredient, std::string_view>, 11> ingredients{{{Ingredient::residuals, "residuals"},
                                                                               {Ingredient::scales, "scales"},
                                                                               {Ingredient::frozen_parameters, "frozen_parameters"},
                                                                               {Ingredient::unused_modules, "unused_modules"},
                                                                               {Ingredient::repeated_modules, "repeated_modules"},
                                                                               {Ingredient::evaluation, "evaluation"},
                                                                               {Ingredient::adam, "adam"},
                                                                               {Ingredient::costs_of_work, "costs_of_work"},
                                                                               {Ingredient::choices, "choices"},
                                                                               {Ingredient::several_forwards, "several_forwards"},
                                                                               {Ingredient::zeroing, "zeroing"}}};

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
    case Ingredient::zeroing: return false;
  }
  return false;
}

}  // namespace

std::string_view to_string(Ingredient ingredient) {
  return std::ranges::find(ingredients, ingredient, [](const auto& entry) { return entry.first; })->second;
}

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
  for (const auto& [ingredient, name] : ingredients) {
    if (has_modules || !is_of_modules(ingredient)) palette.ingredients.insert(ingredient);
  }
  palette = generator.fitted(std::move(palette));
  for (const std::string& name : left_out) {
    const auto feature = kind.find_feature(name);
    const auto ingredient = std::ranges::find(ingredients, name, [](const auto& entry) { return entry.second; });
    if (feature) palette.features.erase(*feature);
    else if (ingredient != ingredients.end()) palette.ingredients.erase(ingredient->first);
    else {
      std::vector<std::string_view> known = kind.feature_names();
      std::ranges::transform(ingredients, std::back_inserter(known), [](const auto& entry) { return entry.second; });
      throw unknown(name, known);
    }
  }
  return palette;
}

Staged generate(std::string_view kind, std::uint64_t seed, std::span<const int> ranks, const Palette& palette) {
  Dice dice(seed);
  Staged staged{.scenario = {}, .ranks = dice.one_of(std::vector<int>(ranks.begin(), ranks.end()))};
  if (staged.ranks == 1 && dice.chance(15)) staged.scenario.costs.imagined_ranks = dice.between(2, 4);
  draw_model(staged.scenario, dice, palette);
  draw_plan(staged.scenario, engine_generator(kind), std::max(staged.ranks, staged.scenario.costs.imagined_ranks), dice, palette);
  draw_costs(staged.scenario, dice, palette);
  draw_script(staged.scenario, staged.ranks, dice, palette);
  validate(staged.scenario);
  return staged;
}

}  // namespace shardproof::scenario
