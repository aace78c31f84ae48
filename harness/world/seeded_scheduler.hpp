// Schedules ranks that are threads of one process: exactly one rank runs at a time. The running rank hands over its
// turn before it waits for other ranks, and before an action that other ranks can see. A seeded random number draws the
// next rank among the ranks that can go on. So one seed always gives the same interleaving, and many seeds give many
// interleavings. Between two hand-overs a rank runs alone, so the ranks' other shared state needs no lock.
//
// All waits of a rank must go through the control page. A rank that waits in another way for a rank without the turn
// waits forever. Examples are a mutex held across a call, and a loop that reads a flag without a call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/control/waiting.hpp"

namespace shardproof::world {

/// Receives each turn as the scheduler gives it, one call at a time.
class TurnObserver {
 public:
  virtual ~TurnObserver() = default;
  virtual void began(std::string_view name) = 0;
  virtual void given(std::optional<int> rank) = 0;  ///< nullopt: no rank can go on
};

class SeededScheduler final : public control::Waiting {
 public:
  /// `observer` must outlive the scheduler.
  SeededScheduler(int ranks, std::uint64_t seed, TurnObserver& observer);

  /// The thread of a rank calls this first. Returns when the rank has its first turn. It waits for no other thread: a
  /// rank whose thread has not begun may be drawn like any other rank.
  void enter(int rank);
  /// The rank that has the turn calls this last, however it ends. The scheduler never draws it again.
  void leave();

  /// From here on, turns depend on `seed` alone, not on earlier turns. Every rank calls it as it begins the same part
  /// of the run. `number` counts these parts (from 1, ascending). Only the first call for a part counts, and passes the
  /// turn on.
  void begin(std::uint64_t number, std::string_view name, std::uint64_t seed);

  /// Time passes for a waiting rank only while no rank can go on. A long computation of another rank makes no rank
  /// late.
  bool wait(control::Doorbell& bell, control::Deadline deadline, control::Condition done) override;
  void pause() override;

 private:
  struct Slot {
    bool left = false;
    const control::Condition* done = nullptr;  ///< set while the rank waits
    control::Doorbell* bell = nullptr;
    std::chrono::steady_clock::duration time_left{};
    bool late = false;
    std::condition_variable called;
  };

  Slot& slot(int rank) { return slots_[static_cast<std::size_t>(rank)]; }
  void pass_on();
  std::vector<int> runnable() const;
  std::optional<int> wait_for_runnable();
  void give(std::optional<int> rank);
  void sit_until_called(std::unique_lock<std::mutex>& lock, int rank);

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::uint64_t random_;
  std::uint64_t begun_ = 0;
  TurnObserver& observer_;
  std::optional<int> turn_;
};

}  // namespace shardproof::world
