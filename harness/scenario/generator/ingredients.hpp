// The ingredients of scenarios: their names, and which of them a scenario has. Inner header.
#pragma once

#include <array>

#include "harness/scenario/generator/generator.hpp"

namespace shardproof::scenario {

inline constexpr std::array all_ingredients{Ingredient::residuals,
                                            Ingredient::scales,
                                            Ingredient::frozen_parameters,
                                            Ingredient::unused_modules,
                                            Ingredient::repeated_modules,
                                            Ingredient::evaluation,
                                            Ingredient::adam,
                                            Ingredient::costs_of_work,
                                            Ingredient::choices,
                                            Ingredient::several_forwards,
                                            Ingredient::zeroing,
                                            Ingredient::kept_gradients,
                                            Ingredient::half_precision};

bool has(const Scenario& scenario, Ingredient ingredient);

}  // namespace shardproof::scenario
