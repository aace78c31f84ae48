// The fabric of ranks on one machine. It has mailboxes in a shared mapping, reduces in rank order, and survives aborts.
// A rank makes its calls on a group from one thread at a time.
//
// A benchmark or a test can have a world without a launcher. It makes the page and a directory, forks, and runs this in
// each child:
//
//   ControlPage control = ControlPage::open(directory / "control", nonce);      // made by ControlPage::create(…, size,
//   nonce) before
//   FileStore store(directory / "store", nonce, rank);
//   auto world = make_shm_world({.control = &control, .store = &store, .directory = directory, .epoch = [] { return 1U;
//   }, .rank = rank});
//   Call call; …; world->run(call);
//
// With `make_thread_world`, it runs a thread for each of the returned groups instead.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/fabric.hpp"

namespace shardproof::fabric {

namespace shm {
class Region;
class SharedMemory;
struct ShmContext;
}  // namespace shm

/// The shared memory of the world's group. Groups of a split have their own.
std::size_t shm_world_bytes(int world_size);

/// The destructor removes the name by which ranks find the mailboxes.
class ShmFabric final : public Fabric {
 public:
  /// Rank 0 makes the mailboxes of all ranks and puts their name into the store. If it cannot, it reports that in the
  /// store and on the control plane, and throws. `memory`: shared by all ranks, where they are threads of one process;
  /// nullptr: files in the context's directory.
  explicit ShmFabric(const FabricContext& context, std::shared_ptr<shm::SharedMemory> memory = nullptr);
  ~ShmFabric() override;
  /// Waits until rank 0 has finished the first step, and for no other rank.
  std::shared_ptr<Group> join() override;

 private:
  rendezvous::FileStore* store_;
  std::shared_ptr<shm::ShmContext> rank_;
  std::shared_ptr<shm::Region> region_;  ///< on rank 0 only
};

/// Both steps, and a barrier. Collective over the world.
std::shared_ptr<Group> make_shm_world(const FabricContext& context);

/// The context for ranks that are threads of this process.
struct ThreadContext {
  control::ControlPlane* control = nullptr;
  std::function<std::uint32_t(int rank)> epoch;
  std::chrono::milliseconds timeout{30'000};
  bool detect_deadlock = true;
};

/// The world's group for each rank. Each group is for one thread.
std::vector<std::shared_ptr<Group>> make_thread_world(const ThreadContext& context);

}  // namespace shardproof::fabric
