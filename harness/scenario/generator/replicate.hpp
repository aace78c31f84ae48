// The generator of plans and calls for engines of the kind `replicate`. Inner header.
#pragma once

#include "harness/scenario/generator/engine_generator.hpp"

namespace shardproof::scenario {

const EngineGenerator& replicate_generator();

/// The part that draws the section; see EngineGenerator. Without `unused_parameters` in the palette, it removes from the model what could
/// leave a parameter without a gradient.
void draw_replicate_options(Scenario& scenario, Dice& dice, const Palette& palette);

/// Whether a forward of the model may leave out parameters.
bool may_leave_out_parameters(const Model& model);

}  // namespace shardproof::scenario
