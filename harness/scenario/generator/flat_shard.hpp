// The generator of plans and calls for engines of the kind `flat_shard`. Inner header.
#pragma once

#include "harness/scenario/generator/engine_generator.hpp"

namespace shardproof::scenario {

const EngineGenerator& flat_shard_generator();

/// The part that draws the section, for units that are wrapped already; see EngineGenerator.
void draw_flat_shard_options(Scenario& scenario, Dice& dice, const Palette& palette);

}  // namespace shardproof::scenario
