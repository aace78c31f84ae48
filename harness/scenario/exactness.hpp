// Finds the values of a scenario that every right engine must compute to the same bits. Pure.
//
// A sum of floating-point numbers depends on its order, unless no partial sum is rounded. So this code follows two
// bounds through the script: how large each value can become, and the power of two that it is a multiple of. If the
// worst case fits into 24 bits, every order gives the same sum.
//
// A value that is rounded once, element by element, is also the same in every engine. A sum of such values is not.
//
// The walk repeats what a step of training does, as engines and the serial oracle do. It can use neither: they compute
// values in one order, and a scenario whose sums happen to be exact in that order may be inexact in another.
// The generator and the shrinker also ask for every draw, where a training would take too long.
#pragma once

#include <vector>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// For every capture, in the order of the script: whether each of its losses, gradients and parameters is the same for
/// every order of sums. These end exactness:
/// - rates and divisors that are not powers of two,
/// - clipping,
/// - gradient hooks at other points than the reduction,
/// - layers and optimizers that divide or take roots.
/// A reduction among ranks does not: the fabric makes it, in one order.
std::vector<bool> exact_captures(const Scenario& scenario, int ranks);

}  // namespace shardproof::scenario
