#include "harness/world/connection.hpp"

#include <filesystem>

#include "harness/control/control_page.hpp"
#include "harness/fabric/messages/message_fabric.hpp"
#include "harness/fabric/mpi/mpi_fabric.hpp"
#include "harness/fabric/mpi/mpi_library.hpp"
#include "harness/fabric/shm/region.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/fabric/tcp/tcp_transport.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/world/seeded_scheduler.hpp"
#include "harness/world/turn_record.hpp"

namespace shardproof::world {

namespace {

Connection connect(const protocol::WorldPlan& plan, std::shared_ptr<fabric::shm::SharedMemory> memory) {
  return {.control = std::make_shared<control::ControlPage>(
              control::ControlPage::open(plan.rendezvous / "control", plan.nonce)),
          .make_fabric =
              [memory](const fabric::FabricContext& context) {
                return std::make_unique<fabric::ShmFabric>(context, memory);
              },
          .has_thread_ranks = memory != nullptr};
}

fabric::FabricMaker over_mpi(const std::filesystem::path& modules) {
  return [modules](const fabric::FabricContext& context) {
    const auto& library = fabric::mpi::library_of(protocol::own_variable);
    return std::make_unique<fabric::MpiFabric>(
        context, fabric::mpi::open_library(library, modules.empty() ? fabric::mpi::default_module_folder() : modules));
  };
}

std::unique_ptr<fabric::Fabric> over_tcp(const fabric::FabricContext& context) {
  return std::make_unique<fabric::MessageFabric>(
      protocol::tcp_fabric, context,
      std::make_unique<fabric::tcp::TcpTransport>(context.store->with_prefix("tcp/"), context.rank,
                                                  context.control->world_size()));
}

}  // namespace

Connection connect_process(const protocol::WorldPlan& plan) {
  Connection own = connect(plan, nullptr);
  if (plan.fabric == protocol::mpi_fabric) own.make_fabric = over_mpi(plan.mpi_modules);
  if (plan.fabric == protocol::tcp_fabric || (plan.fabric == protocol::nccl_fabric && plan.is_on_several_hosts()))
    own.make_fabric = over_tcp;
  return own;
}

Connection connect_threads(const protocol::WorldPlan& plan) {
  Connection shared = connect(plan, fabric::shm::make_thread_memory());
  if (plan.scheduler == protocol::Scheduler::seeded) {
    shared.turns = std::make_shared<TurnRecord>(protocol::WorldDirectory{plan.directory}.turns(), shared.control);
    shared.scheduler = std::make_shared<SeededScheduler>(plan.size, plan.seed, *shared.turns);
    shared.control->wait_by(shared.scheduler);
  }
  return shared;
}

}  // namespace shardproof::world
