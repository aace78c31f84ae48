// The generator of plans and calls for engines of the kind `replicate`. Inner header.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/generator/engine_generator.hpp"

namespace shardproof::scenario {

const EngineGenerator& replicate_generator();

/// Draws the section for `ranks` ranks; see EngineGenerator. Without `unused_parameters` in the palette, it removes the
/// modules that could leave a parameter without a gradient.
void draw_replicate_options(Scenario& scenario, int ranks, Dice& dice, const Palette& palette);

/// Two linear modules, by path, with nothing but ReLUs between them. Nothing else uses them. So the first can be
/// divided by columns and the second by rows. No module is in two pairs.
struct DivisiblePair {
  std::string column, row;
};
std::vector<DivisiblePair> divisible_pairs(const Model& model);

/// Gives modules that share a weight the dtype of its owner.
void share_parameter_dtypes(Scenario& scenario);

/// Whether a forward of the model may leave out parameters.
bool may_leave_out_parameters(const Model& model);

}  // namespace shardproof::scenario
