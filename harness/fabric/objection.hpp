// What a group can be asked for: the rules of counts, sizes, operations and places, once for all fabrics and all devices. Pure.
#pragma once

#include <string>

#include "harness/fabric/group.hpp"

namespace shardproof {

/// Why a group of `size` ranks cannot run this call of its member `rank`, whatever the others ask for; empty when it can.
///
/// Sizes are as `Call` says. Operands overlap only where every fabric can move them so: an all-gather's input inside its output at this
/// rank's part, a reduce-scatter's output inside its input likewise, the two of an all-reduce or a broadcast as one and the same.
std::string objection(const Call& call, int rank, int size);

}  // namespace shardproof
