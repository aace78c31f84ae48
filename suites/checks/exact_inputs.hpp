// Inputs that keep training exact.
#pragma once

#include "harness/scenario/scenario.hpp"

namespace shardproof::suites {

/// Gives the scenario inputs for four iterations and four ranks; after that, inputs repeat. Each row has one entry of 1
/// or -1, and zeros. So sums and gradients have few bits. With integer weights, and rates that are powers of two, f32
/// holds all bits of three steps of a small network.
void give_one_hot_inputs(Script& script);

}  // namespace shardproof::suites
