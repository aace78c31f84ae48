#include "harness/fabric/mpi/mpi_fabric.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/fabric/mpi/messenger.hpp"
#include "harness/fabric/mpi/mpi_group.hpp"

namespace shardproof::fabric {

namespace {

constexpr int number_of_world = 1;  // 0 is for farewells

}  // namespace

MpiFabric::MpiFabric(const FabricContext& context, std::unique_ptr<mpi::Transport> transport)
    : rank_(std::make_shared<mpi::MpiContext>()) {
  const int size = context.control->world_size();
  if (transport->rank() != context.rank || transport->size() != size) {
    const std::string text =
        transport->size() == 1
            ? fmt::format(
                  "fabric mpi: {} sees this process alone, and in its world it is rank {} of {}: the launcher "
                  "may belong to another MPI library; use the launcher of this one, or set SHARDPROOF_MPI to "
                  "the other (openmpi or mpich)",
                  transport->name(), context.rank, size)
            : fmt::format(
                  "fabric mpi: {} has started this process as rank {} of {}, but in its world it is rank {} of "
                  "{}: start as many ranks as the world has, and number them alike",
                  transport->name(), transport->rank(), transport->size(), context.rank, size);
    transport->abandon(nullptr);
    throw std::runtime_error(text);
  }
  rank_->control = context.control;
  rank_->epoch = context.epoch;
  rank_->give_up_at = context.give_up_at ? context.give_up_at : usual_deadline(context.timeout, size);
  rank_->rank = context.rank;
  rank_->detect_deadlock = context.detect_deadlock;
  rank_->messenger = std::make_shared<mpi::Messenger>(
      std::move(transport), [control = context.control] { return control->doomed().has_value(); });
}

std::shared_ptr<Group> MpiFabric::join() {
  return std::make_shared<mpi::MpiGroup>(rank_, "world", world_id, all_ranks(rank_->control->world_size()),
                                         number_of_world);
}

}  // namespace shardproof::fabric
