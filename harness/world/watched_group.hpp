// The world's group as bodies and engines see it. It passes every call to the fabric. For the end of the running case,
// it counts this rank's calls on the world group. It also records whether a call ended early, and whether another rank
// has ended a wait. A body may swallow such an exception, but the record stays.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/fabric/group.hpp"

namespace shardproof::world {

struct GroupWatch {
  std::uint64_t world_calls = 0;  ///< includes splits
  /// Another rank ended a wait, or all ranks waited for each other.
  bool released = false;
  /// A call ended early. If the fabric sends messages, some of the call's messages may be left.
  bool left_call = false;
  std::string out_of_reach;  ///< `Group::why_out_of_reach` after that call
};

/// `watch` must outlive the group and every group that is split from it.
std::shared_ptr<Group> watch_world(std::shared_ptr<Group> world, GroupWatch& watch);

}  // namespace shardproof::world
