// Connection is how one rank reaches the other ranks of its world: the control plane, the fabric, and the scheduler of
// turns. The rank's World gets it from the code that starts the rank.
#pragma once

#include <memory>

#include "harness/control/control_plane.hpp"
#include "harness/fabric/fabric.hpp"

namespace shardproof::protocol {
struct WorldPlan;
}

namespace shardproof::world {

class SeededScheduler;
class TurnRecord;

struct Connection {
  std::shared_ptr<control::ControlPlane> control;
  fabric::FabricMaker make_fabric;
  bool has_thread_ranks = false;  ///< The ranks of the world are threads of one process.
  std::shared_ptr<TurnRecord> turns = nullptr;           ///< nullptr: ranks do not take turns
  std::shared_ptr<SeededScheduler> scheduler = nullptr;  ///< nullptr: ranks do not take turns
};

// Both throw std::system_error or std::runtime_error with the name of the file that cannot be opened or made.

/// For a rank that is a process: it maps the files of its launcher, and reaches its peers by the plan's fabric. With
/// `mpi`, the MPI library that has started the ranks carries messages. With `tcp`, TCP connections carry messages. So
/// they do with `nccl`, if ranks are on several hosts. Otherwise, ranks share memory.
Connection connect_process(const protocol::WorldPlan& plan);
/// For ranks that are threads of one process, in a plan whose fabric is `thread`. All ranks share the connection: one
/// mapping of all shared memory, at the same addresses.
Connection connect_threads(const protocol::WorldPlan& plan);

}  // namespace shardproof::world
