// The rules for a group's calls: counts, sizes, operations and places, the same for all fabrics and all devices. Pure.
#pragma once

#include <string>

#include "harness/fabric/group.hpp"

namespace shardproof::fabric {

/// The reason why a group of `size` ranks cannot run this call of its member `rank`, whatever the other ranks request.
/// Empty when the group can run it.
///
/// `Call` states the sizes. Operands overlap only where every fabric can move them so:
/// - All-gather: the input is this rank's part of the output.
/// - Reduce-scatter: the output is this rank's part of the input.
/// - All-reduce, broadcast: input and output are the same bytes.
std::string objection(const Call& call, int rank, int size);

}  // namespace shardproof::fabric
