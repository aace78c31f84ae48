// Smaller scenarios than one: with one thing less, or plainer in one respect. Whoever looks for the smallest that still shows something
// tries them in turn, takes the first that does, and asks again. Pure.
#pragma once

#include <vector>

#include "harness/scenario/generator/generator.hpp"

namespace shardproof::scenario {

/// Each is valid, none is the one itself, and no chain of them comes back; those that leave out most come first. What no longer means
/// anything goes as well: a group of a module that is gone, a cost of it. Where all captures are exact (exactness.hpp), so are those of
/// each.
std::vector<Staged> smaller(const Staged& staged);

}  // namespace shardproof::scenario
