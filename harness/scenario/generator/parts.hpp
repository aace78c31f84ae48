// The parts of a generated scenario, drawn one after the other: each is made to fit those before it. Inner header.
#pragma once

#include "harness/scenario/generator/dice.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

inline constexpr Nanoseconds millisecond = 1'000'000;

/// The model, and the script's input that it takes.
void draw_model(Scenario& scenario, Dice& dice, const Palette& palette);
/// Undoes what no plan could carry out: modules that share a parameter, or are run from elsewhere, and are not gathered together.
/// For as many ranks as engines see: those of the world, or those that are imagined.
void draw_plan(Scenario& scenario, int ranks, Dice& dice, const Palette& palette);
void draw_costs(Scenario& scenario, Dice& dice, const Palette& palette);
/// Captures stand only where values are exact.
void draw_script(Scenario& scenario, int ranks, Dice& dice, const Palette& palette);

}  // namespace shardproof::scenario
