// Which modules a plan wraps one by one, for kinds of engines that gather what a wrapped module holds. Inner header.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/generator/dice.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// Draws the paths of modules that are wrapped, children before parents. Some of them holds a parameter that is trained, or the root is
/// wrapped. Removes from the model what these modules cannot hold: pairs that no wrapped module holds, and modules that are not gathered
/// together although they share a parameter or a `use` runs one of them.
std::vector<std::string> draw_wrapped_modules(Model& model, Dice& dice);

}  // namespace shardproof::scenario
