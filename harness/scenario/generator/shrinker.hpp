// Makes smaller scenarios than a given one. Each has one part less, or is simpler in one respect. To find the smallest
// scenario that still shows a difference, a caller tries them in turn. It takes the first that shows the difference,
// and asks again. Pure.
#pragma once

#include <vector>

#include "harness/scenario/generator/generator.hpp"

namespace shardproof::scenario {

/// Each result is valid and differs from `staged`, and no chain of results leads back to it. Results that leave out
/// most come first. A result also drops parts that have lost their meaning, such as the group and the cost of a removed
/// module. If all captures of `staged` are exact (exactness.hpp), all captures of each result are exact, too.
std::vector<Staged> smaller(const Staged& staged);

}  // namespace shardproof::scenario
