#include "harness/world/thread_world_shared.hpp"

#include <utility>

#include "harness/fabric/shm/region.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/world/seeded_scheduler.hpp"
#include "harness/world/turn_record.hpp"

namespace shardproof {

ThreadWorldShared shared_by_threads(const WorldPlan& plan) {
  ThreadWorldShared shared;
  shared.control = std::make_shared<ControlPage>(ControlPage::open(plan.rendezvous / "control", plan.nonce));
  shared.memory = shm::make_thread_memory();
  if (plan.scheduler == Scheduler::seeded) {
    shared.turns = std::make_shared<TurnRecord>(WorldDirectory{plan.directory}.turns(), shared.control);
    shared.scheduler = std::make_shared<SeededScheduler>(plan.size, plan.seed, *shared.turns);
    shared.control->wait_by(shared.scheduler);
  }
  return shared;
}

}  // namespace shardproof
