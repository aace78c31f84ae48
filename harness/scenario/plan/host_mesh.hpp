// The mesh of hybrid sharding that follows the hosts of a world. Pure.
#pragma once

#include "harness/protocol/placement.hpp"
#include "harness/scenario/plan/plan.hpp"

namespace shardproof {

/// Replicates across hosts and shards inside each host. So all-gathers and reduce-scatters stay on one host, and only
/// all-reduces of shards go from host to host. The dimensions are named `replicate` and `shard`. Throws
/// std::invalid_argument with the ranks of the hosts if a mesh cannot follow them (Placement::grid).
Mesh mesh_over_hosts(const Placement& placement);

}  // namespace shardproof
