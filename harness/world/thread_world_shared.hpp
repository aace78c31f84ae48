// The objects that the ranks of a world share if they are threads of one process: one mapping of all shared memory, and
// the scheduler of turns. All ranks see the shared memory at the same addresses. A rank that is its own process shares
// none of these: it maps the files of the launcher and its peers.
#pragma once

#include <memory>

#include "harness/control/control_page.hpp"

namespace shardproof {

class SeededScheduler;
class TurnRecord;

namespace shm {
class SharedMemory;
}

struct WorldPlan;

struct ThreadWorldShared {
  std::shared_ptr<ControlPage> control;  ///< nullptr: the rank is a process
  std::shared_ptr<shm::SharedMemory> memory;  ///< nullptr: the rank is a process
  std::shared_ptr<TurnRecord> turns;  ///< nullptr: ranks do not take turns
  std::shared_ptr<SeededScheduler> scheduler;  ///< nullptr: ranks do not take turns
};

/// Makes them for a plan whose fabric is `thread`. Throws std::system_error or std::runtime_error with the name of the
/// file that cannot be opened or made.
ThreadWorldShared shared_by_threads(const WorldPlan& plan);

}  // namespace shardproof
