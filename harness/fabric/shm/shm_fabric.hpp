// The fabric of ranks on one machine: mailboxes in a shared mapping, reductions in rank order, survives aborts. One rank makes its calls on
// a group from one thread at a time.
//
// A world for a benchmark or a test, without a launcher: make the page and a directory, fork, and in each child
//
//   ControlPage control = ControlPage::open(directory / "control", nonce);      // made by ControlPage::create(…, size, nonce) before
//   FileStore store(directory / "store", nonce, rank);
//   auto world = make_shm_world({.control = &control, .store = &store, .directory = directory, .epoch = [] { return 1U; }, .rank = rank});
//   Call call; …; world->run(call);
//
// or `make_thread_world`, and a thread for each of its groups.
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

/// What a group needs to know about the world around it. The page must outlive all groups, the store only the making of the world.
struct ShmContext {
  ControlPage* control = nullptr;
  FileStore* store = nullptr;  ///< where the ranks find the world's mapping
  std::filesystem::path directory;  ///< private, on a memory file system where there is one
  std::function<std::uint32_t()> epoch;  ///< of the case now running; below 2^24
  std::chrono::milliseconds timeout{30'000};  ///< of one wait; the fabric stretches it by ranks per core
  std::function<Deadline(Deadline now)> give_up_at;  ///< when a wait that begins now gives up; empty: after `timeout`
  int rank = 0;
  /// Of all ranks together, where they are threads of one process; nullptr: files in `directory`.
  std::shared_ptr<shm::SharedMemory> memory;
  /// Tell at once when every rank waits (see ControlPage). To be switched off where a rank makes calls from several threads.
  bool detect_deadlock = true;
};

/// A world in the making, in two steps with room between them: where ranks meet in any case after the first, nobody waits in the second.
/// Kept until all have joined, which rank 0 must learn by other means: with it goes the name by which they find the mailboxes.
class ShmWorld {
 public:
  /// Rank 0 makes the mailboxes of all ranks and names them in the store; where it cannot, it says so there and on the page, and throws.
  explicit ShmWorld(const ShmContext& context);
  ~ShmWorld();
  ShmWorld(const ShmWorld&) = delete;
  ShmWorld& operator=(const ShmWorld&) = delete;
  /// The world's group, once rank 0 is past the first step: waits for that, and for no other rank.
  std::shared_ptr<Group> join() const;

 private:
  FileStore* store_;
  std::shared_ptr<shm::RankContext> rank_;
  std::shared_ptr<shm::Region> region_;  ///< of rank 0
};

/// Both steps, and a barrier. Collective over the world.
std::shared_ptr<Group> make_shm_world(const ShmContext& context);

/// The same for ranks that are threads of this process.
struct ThreadContext {
  ControlPage* control = nullptr;
  std::function<std::uint32_t(int rank)> epoch;
  std::chrono::milliseconds timeout{30'000};
  bool detect_deadlock = true;
};

/// The world's group for each rank; each is for one thread.
std::vector<std::shared_ptr<Group>> make_thread_world(const ThreadContext& context);

}  // namespace shardproof
