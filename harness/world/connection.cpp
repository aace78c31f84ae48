#include "harness/world/connection.hpp"

#include <utility>

#include "harness/control/control_page.hpp"
#include "harness/fabric/shm/region.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/world/seeded_scheduler.hpp"
#include "harness/world/turn_record.hpp"

namespace shardproof {

namespace {

Connection connect(const WorldPlan& plan, std::shared_ptr<shm::SharedMemory> memory) {
  return {
      .control = std::make_shared<ControlPage>(ControlPage::open(plan.rendezvous / "control", plan.nonce)),
      .make_fabric = [memory](const FabricContext& context) { return std::make_unique<ShmFabric>(context, memory); },
      .has_thread_ranks = memory != nullptr};
}

}  // namespace

Connection connect_process(const WorldPlan& plan) { return connect(plan, nullptr); }

Connection connect_threads(const WorldPlan& plan) {
  Connection shared = connect(plan, shm::make_thread_memory());
  if (plan.scheduler == Scheduler::seeded) {
    shared.turns = std::make_shared<TurnRecord>(WorldDirectory{plan.directory}.turns(), shared.control);
    shared.scheduler = std::make_shared<SeededScheduler>(plan.size, plan.seed, *shared.turns);
    shared.control->wait_by(shared.scheduler);
  }
  return shared;
}

}  // namespace shardproof
