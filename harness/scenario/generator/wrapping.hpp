// Draws the modules that a plan wraps one by one. For kinds of engines that gather the parameters of a wrapped module.
// Inner header.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/generator/dice.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Draws the paths of wrapped modules, children before parents. At least one of them holds a trained parameter, or the
/// root is wrapped. Removes from the model the parts that these modules cannot hold. One part is a pair that no wrapped
/// module holds. Another part is modules that are not gathered together, although they share a parameter or a `use`
/// runs one of them.
std::vector<std::string> draw_wrapped_modules(Model& model, Dice& dice);

}  // namespace shardproof::scenario
