// The parts of a generated scenario, drawn one after the other: each part fits the parts before it. Inner header.
#pragma once

#include "harness/scenario/generator/dice.hpp"
#include "harness/scenario/generator/engine_generator.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

inline constexpr Nanoseconds millisecond = 1'000'000;

/// Whether to draw a trait that the palette has: in `percent` of 100 draws, or in `wanted` of 100 if the palette wants
/// it.
template <class OfTrait> bool draws(const Palette& palette, OfTrait trait, Dice& dice, int percent, int wanted = 100) {
  return palette.has(trait) && dice.chance(palette.wants(trait) ? wanted : percent);
}

/// Draws the model, and the input of the script.
void draw_model(Scenario& scenario, Dice& dice, const Palette& palette);
/// Draws the plan. Removes from the model the parts that no plan could carry out: modules that share a parameter, or
/// that a `use` runs, and that are not gathered together. `ranks` is the number of ranks that engines see: the ranks of
/// the world, or the imagined ranks.
void draw_plan(Scenario& scenario, const EngineGenerator& engine, int ranks, Dice& dice, const Palette& palette);
void draw_costs(Scenario& scenario, Dice& dice, const Palette& palette);
/// Captures values only where they are exact (exactness.hpp).
void draw_script(Scenario& scenario, int ranks, Dice& dice, const Palette& palette);

}  // namespace shardproof::scenario
