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
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/group.hpp"
#include "harness/rendezvous/file_store.hpp"

namespace shardproof {

namespace shm {
class Region;
class SharedMemory;
struct RankContext;
}  // namespace shm

/// A group's view of its world. The page must outlive all groups; the store must outlive only the making of the world.
struct ShmContext {
  ControlPage* control = nullptr;
  FileStore* store = nullptr;  ///< Where the ranks find the world's mapping.
  std::filesystem::path directory;  ///< Private, on a memory file system where one exists.
  std::function<std::uint32_t()> epoch;  ///< Epoch of the running case; below 2^24.
  std::chrono::milliseconds timeout{30'000};  ///< For one wait; the fabric multiplies it by the ranks per core.
  /// The time at which a wait that begins now gives up. Empty: after `timeout`.
  std::function<Deadline(Deadline now)> give_up_at;
  int rank = 0;
  /// Shared by all ranks, where they are threads of one process. nullptr: files in `directory`.
  std::shared_ptr<shm::SharedMemory> memory;
  /// Report at once when every rank waits (see ControlPage). Switch it off where a rank makes calls from several
  /// threads.
  bool detect_deadlock = true;
};

/// A world that is made in two steps, with room for other work between them. Where the ranks meet after the first step
/// anyway, no rank waits in the second. Keep the object until all ranks have joined, which rank 0 must learn by other
/// means. Its destructor removes the name by which they find the mailboxes.
class ShmWorld {
 public:
  /// Rank 0 makes the mailboxes of all ranks and puts their name into the store. If it cannot, it reports that in the
  /// store and on the page, and throws.
  explicit ShmWorld(const ShmContext& context);
  ~ShmWorld();
  ShmWorld(const ShmWorld&) = delete;
  ShmWorld& operator=(const ShmWorld&) = delete;
  /// Returns the world's group. It waits until rank 0 has finished the first step, and for no other rank.
  std::shared_ptr<Group> join() const;

 private:
  FileStore* store_;
  std::shared_ptr<shm::RankContext> rank_;
  std::shared_ptr<shm::Region> region_;  ///< on rank 0 only
};

/// Both steps, and a barrier. Collective over the world.
std::shared_ptr<Group> make_shm_world(const ShmContext& context);

/// The context for ranks that are threads of this process.
struct ThreadContext {
  ControlPage* control = nullptr;
  std::function<std::uint32_t(int rank)> epoch;
  std::chrono::milliseconds timeout{30'000};
  bool detect_deadlock = true;
};

/// The world's group for each rank. Each group is for one thread.
std::vector<std::shared_ptr<Group>> make_thread_world(const ThreadContext& context);

}  // namespace shardproof
