// The generator of plans and calls for engines of the kind `fully_shard`. Inner header.
#pragma once

#include "harness/scenario/generator/engine_generator.hpp"

namespace shardproof::scenario {

const EngineGenerator& fully_shard_generator();

/// The parts that draw the section; see EngineGenerator.
void draw_fully_shard_groups(Scenario& scenario, Dice& dice);
void draw_fully_shard_options(Scenario& scenario, int shards, Dice& dice, const Palette& palette);

}  // namespace shardproof::scenario
