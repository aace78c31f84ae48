// MpiFabric is the fabric of ranks on one or several hosts: messages of the MPI library that has started them. It knows
// no launcher, only the variables that the library's own mpirun sets for its ranks (mpi_library.hpp).
#pragma once

#include <memory>

#include "harness/fabric/fabric.hpp"
#include "harness/fabric/mpi/transport.hpp"

namespace shardproof::fabric {

namespace mpi {
struct MpiContext;
}  // namespace mpi

class MpiFabric final : public Fabric {
 public:
  /// Throws std::runtime_error if the transport's rank and size are not the world's.
  MpiFabric(const FabricContext& context, std::unique_ptr<mpi::Transport> transport);
  /// Waits for no rank.
  std::shared_ptr<Group> join() override;

 private:
  std::shared_ptr<mpi::MpiContext> rank_;
};

}  // namespace shardproof::fabric
