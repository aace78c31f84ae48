// MpiFabric is the fabric `mpi`: the MPI library that has started the ranks carries their messages. The fabric knows no
// launcher, only the variables that the library's own mpirun sets for its ranks (mpi_library.hpp).
#pragma once

#include <memory>

#include "harness/fabric/messages/message_fabric.hpp"

namespace shardproof::fabric {

class MpiFabric final : public MessageFabric {
 public:
  /// Throws std::runtime_error if the transport's rank and size are not the world's.
  MpiFabric(const FabricContext& context, std::unique_ptr<messages::Transport> transport);
};

}  // namespace shardproof::fabric
