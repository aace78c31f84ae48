// Ranks that are threads of one process and take turns: exactly one runs, and hands over where it waits for others or is about to do what
// they can see. Who is next is drawn by a seed among those who can go on, so that one seed is one interleaving, again and again, and many
// seeds are many. Between two hand-overs a rank is alone: what ranks share besides needs no lock.
//
// Sound where all that a rank waits for is waited for through the control page. A rank that waits in another way for one that has not the
// turn (a mutex held across a call, a flag in a loop without a call) waits for ever.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/control/waiting.hpp"

namespace shardproof {

/// Hears how turns are given, one call at a time.
class TurnObserver {
 public:
  virtual ~TurnObserver() = default;
  virtual void began(std::string_view name) = 0;
  virtual void given(std::optional<int> rank) = 0;  ///< nullopt: nobody can go on
};

class SeededScheduler final : public Waiting {
 public:
  /// `observer` must outlive the scheduler.
  SeededScheduler(int ranks, std::uint64_t seed, TurnObserver& observer);

  /// What the thread of a rank does first; returns when the rank has its first turn. Nobody is waited for: a rank whose thread has not begun
  /// may be drawn like any other.
  void enter(int rank);
  /// What the rank that has the turn does last, however it ends: it is never drawn again.
  void leave();

  /// From here on turns depend on `seed` alone, not on what was before: called by every rank as it begins the same thing, in which it is the
  /// `number`th (from 1, ascending). Of all those calls the first one counts, and passes the turn on.
  void begin(std::uint64_t number, std::string_view name, std::uint64_t seed);

  /// Time passes for a waiting rank only while nobody can go on: that another one computes for long makes nobody late.
  bool wait(Doorbell& bell, Deadline deadline, Condition done) override;
  void pause() override;

 private:
  struct Seat {
    bool left = false;
    const Condition* done = nullptr;  ///< of a rank that waits
    Doorbell* bell = nullptr;
    std::chrono::steady_clock::duration patience{};
    bool late = false;
    std::condition_variable called;
  };

  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
  void pass_on();
  std::vector<int> runnable() const;
  std::optional<int> wait_for_somebody();
  void give(std::optional<int> rank);
  void sit_until_called(std::unique_lock<std::mutex>& lock, int rank);

  std::mutex mutex_;
  std::vector<Seat> seats_;
  std::uint64_t random_;
  std::uint64_t begun_ = 0;
  TurnObserver& observer_;
  std::optional<int> turn_;
};

}  // namespace shardproof
