#include "harness/fabric/mpi/mpi_fabric.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/protocol/world_plan.hpp"

namespace shardproof::fabric {

namespace {

std::unique_ptr<messages::Transport> checked(const FabricContext& context,
                                             std::unique_ptr<messages::Transport> transport) {
  const int size = context.control->world_size();
  if (transport->rank() == context.rank && transport->size() == size) return transport;
  const std::string text =
      transport->size() == 1
          ? fmt::format(
                "fabric mpi: {} sees this process alone, and in its world it is rank {} of {}: the launcher may "
                "belong to another MPI library; use the launcher of this one, or set SHARDPROOF_MPI to the "
                "other (openmpi or mpich)",
                transport->name(), context.rank, size)
          : fmt::format(
                "fabric mpi: {} has started this process as rank {} of {}, but in its world it is rank {} of "
                "{}: start as many ranks as the world has, and number them alike",
                transport->name(), transport->rank(), transport->size(), context.rank, size);
  transport->abandon(nullptr);
  throw std::runtime_error(text);
}

}  // namespace

MpiFabric::MpiFabric(const FabricContext& context, std::unique_ptr<messages::Transport> transport)
    : MessageFabric(protocol::mpi_fabric, context, checked(context, std::move(transport))) {}

}  // namespace shardproof::fabric
