// The world's group as bodies and engines see it. Passes every call on to the fabric, and remembers of the running case what its end is
// judged by: how many calls this rank made on the world group, and whether a wait was cut short because of another rank. A body may swallow
// that exception; it cannot make it unseen.
#pragma once

#include <cstdint>
#include <memory>

#include "harness/fabric/group.hpp"

namespace shardproof {

struct GroupWatch {
  std::uint64_t world_calls = 0;  ///< splits among them
  bool released = false;  ///< a wait ended by another rank's doing, or because all ranks waited for each other
};

/// `watch` must outlive the group and every group that is split from it.
std::shared_ptr<Group> watch_world(std::shared_ptr<Group> world, GroupWatch& watch);

}  // namespace shardproof
