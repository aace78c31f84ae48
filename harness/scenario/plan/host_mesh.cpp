#include "harness/scenario/plan/host_mesh.hpp"

namespace shardproof {

Mesh mesh_over_hosts(const Placement& placement) {
  const HostGrid grid = placement.grid();
  return {.shape = {grid.hosts, grid.ranks_per_host}, .names = {"replicate", "shard"}};
}

}  // namespace shardproof
