#include "harness/fabric/shm/shm_fabric.hpp"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "harness/base/no_room.hpp"
#include "harness/fabric/shm/shm_group.hpp"

namespace shardproof::fabric {

namespace {

constexpr const char* region_key = "fabric/world";

/// The size of a slot. The slots of a world, together with the slots of all groups of one split, take at most 8 MiB up
/// to 512 ranks. So a world with several meshes fits into the 64 MiB that containers give to /dev/shm.
std::size_t slot_bytes_for(int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t share = std::clamp<std::size_t>((4U << 20) / ranks, 4U << 10, 128U << 10);
  return (std::max(share, 8 * ranks) + 63) / 64 * 64;
}

}  // namespace

std::size_t shm_world_bytes(int world_size) { return shm::Meeting::bytes(world_size, slot_bytes_for(world_size)); }

ShmFabric::ShmFabric(const FabricContext& context, std::shared_ptr<shm::SharedMemory> memory)
    : store_(context.store), rank_(std::make_shared<shm::ShmContext>()) {
  const int size = context.control->world_size();
  rank_->control = context.control;
  rank_->epoch = context.epoch;
  rank_->give_up_at = context.give_up_at ? context.give_up_at : usual_deadline(context.timeout, size);
  rank_->rank = context.rank;
  rank_->detect_deadlock = context.detect_deadlock;
  rank_->memory = memory ? std::move(memory) : shm::make_file_memory(context.directory, context.rank);
  rank_->slot_bytes = slot_bytes_for(size);
  if (context.rank != 0 || size == 1) return;
  try {
    auto [made, name] = rank_->memory->create(shm_world_bytes(size));
    region_ = std::move(made);
    store_->put(region_key, name);
  } catch (const base::NoRoom& failure) {
    context.control->doom(control::no_room_for(0, failure.what()));
    store_->poison(failure.what());  // without room for that, the other ranks wait until their launcher ends them
    throw;
  } catch (const std::exception& failure) {
    context.control->doom({.culprit = 0, .reason = control::AbortReason::error, .text = failure.what()});
    store_->poison(failure.what());
    throw;
  }
}

ShmFabric::~ShmFabric() {
  if (region_) region_->drop_name();
}

std::shared_ptr<Group> ShmFabric::join() {
  const int size = rank_->control->world_size();
  std::shared_ptr<shm::Region> region = region_;
  if (rank_->rank != 0) {
    const auto name = store_->wait(region_key, rank_->give_up_at(std::chrono::steady_clock::now()));
    region = rank_->memory->attach(name, shm_world_bytes(size));
  }
  return std::make_shared<shm::ShmGroup>(rank_, "world", world_id, all_ranks(size), std::move(region));
}

std::shared_ptr<Group> make_shm_world(const FabricContext& context) {
  ShmFabric making(context);
  auto world = making.join();
  world->barrier("join");
  return world;
}

std::vector<std::shared_ptr<Group>> make_thread_world(const ThreadContext& context) {
  const int size = context.control->world_size();
  const std::size_t slot_bytes = slot_bytes_for(size);
  const std::shared_ptr<shm::SharedMemory> memory = shm::make_thread_memory();
  const auto region = size == 1 ? nullptr : memory->create(shm_world_bytes(size)).region;
  std::vector<std::shared_ptr<Group>> groups;
  for (int index = 0; index < size; ++index) {
    auto rank = std::make_shared<shm::ShmContext>();
    rank->control = context.control;
    rank->epoch = [epoch = context.epoch, index] { return epoch(index); };
    rank->give_up_at = usual_deadline(context.timeout, size);
    rank->rank = index;
    rank->detect_deadlock = context.detect_deadlock;
    rank->memory = memory;
    rank->slot_bytes = slot_bytes;
    groups.push_back(std::make_shared<shm::ShmGroup>(std::move(rank), "world", world_id, all_ranks(size), region));
  }
  return groups;
}

}  // namespace shardproof::fabric
