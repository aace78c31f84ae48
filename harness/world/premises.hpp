// What the ranks of a world share when they are threads of one process: one mapping of everything, so that what one writes there another
// reads at the same address, and whoever decides whose turn it is. A rank that is a process of its own shares nothing: it maps the files that
// the launcher and its peers have made.
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

struct Premises {
  std::shared_ptr<ControlPage> control;  ///< nullptr: of a rank that is a process
  std::shared_ptr<shm::SharedMemory> memory;  ///< likewise
  std::shared_ptr<TurnRecord> turns;  ///< nullptr: ranks do not take turns
  std::shared_ptr<SeededScheduler> scheduler;  ///< likewise
};

/// For the ranks of a plan whose fabric is `thread`. Throws std::system_error and std::runtime_error naming what cannot be opened or made.
Premises premises_of_threads(const WorldPlan& plan);

}  // namespace shardproof
