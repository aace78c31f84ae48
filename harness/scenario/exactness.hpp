// Which values of a scenario must any right engine come to, to the bit? A sum of floating-point numbers depends on the order in which it is
// taken, unless none of its partial sums is rounded. So it is followed through the script how large values can become and what they are all
// multiples of: where a worst case still fits into 24 bits, every order gives the same. What is rounded once, element by element, is the
// same as well; but a sum over such numbers is not. Pure.
#pragma once

#include <vector>

#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

/// For every capture, in the order in which the script comes to it: whether each loss, gradient and parameter in it is the same however
/// sums are taken. Rates and divisors that are no powers of two, clipping, gradient hooks at other points than the reduction, and layers
/// and optimizers that divide or take roots end it. A reduction among ranks is the fabric's, which takes sums in one order.
std::vector<bool> exact_captures(const Scenario& scenario, int ranks);

}  // namespace shardproof::scenario
