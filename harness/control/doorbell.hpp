// Doorbell is a word in shared memory on which processes and threads sleep until another one reports a change. It
// carries no data: the ringer publishes before it rings, and the sleeper looks again after it wakes. A doorbell
// outlives the death of any sleeper or ringer. A dead sleeper leaves a count, which costs later ringers a system call
// but never a wakeup.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#include <sched.h>

namespace shardproof::control {

/// An absolute, monotonic time.
using Deadline = std::chrono::steady_clock::time_point;

/// A wait throws it when its deadline passes. The text names the ranks that have not arrived and the last call of each,
/// or what is missing.
class DeadlineExceeded : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Adaptive back-off for an expensive step that mostly helps. While the step helps, every wait takes it. After a
/// failure, the next 32 waits skip it; each further failure doubles that number, up to 1024. A success resets it to 32.
class AdaptiveBackoff {
 public:
  bool due() {
    const int left = left_.load(std::memory_order_relaxed);
    if (left > 0) left_.store(left - 1, std::memory_order_relaxed);
    return left == 0;
  }
  void helped() { pause_.store(shortest, std::memory_order_relaxed); }
  void was_in_vain() {
    const int pause = pause_.load(std::memory_order_relaxed);
    left_.store(pause, std::memory_order_relaxed);
    pause_.store(std::min(longest, 2 * pause), std::memory_order_relaxed);
  }

 private:
  static constexpr int shortest = 32, longest = 1024;

  std::atomic<int> left_{0};  ///< waits that will still skip the step
  std::atomic<int> pause_{shortest};
};

/// The wait before sleep: it spins or yields for a short time. The awaited result is mostly in one of two states.
/// Either it is under way on another core and ready in a microsecond, or its maker has no core, perhaps because this
/// thread occupies it. The state holds estimates only: threads that share it may overwrite each other's estimates.
class SpinBudget {
 public:
  /// `enough_cores`: there is a core for every rank that may have to work before this one can go on.
  explicit SpinBudget(bool enough_cores) : enough_cores_(enough_cores) {}

  /// Returns true once `done()` holds, and false when it is time to sleep.
  template <class Done>
  bool look(const Done& done) {
    return enough_cores_ ? spin(done) : yield(done);
  }

 private:
  /// The long spin must outlast the wake-up of a sleeping peer. Otherwise two ranks that have slept once would wake
  /// each other too late forever: an all-reduce of 400 ns took 20 us from then on. Where the long spin does not help,
  /// the rank spins for a short while. With 1000 turns every time, on 2 cores with other load, 2 ranks shared one core
  /// and took turns on it every 45 us.
  template <class Done>
  bool spin(const Done& done) {
    const bool is_attempt = attempt_.due();
    for (int turn = is_attempt ? long_turns : short_turns; turn > 0; --turn) {
      relax();
      if (!done()) continue;
      if (is_attempt) attempt_.helped();
      return true;
    }
    if (is_attempt) attempt_.was_in_vain();
    return false;
  }

  /// Yielding is the fastest way to a peer that waits for this core, as long as the peer has little to do. An
  /// all-reduce of 4 ranks on 2 cores of their own took 4 us with yields, and 20 us with immediate sleep. If the core
  /// goes to a thread that keeps it, a sleeping rank is back sooner.
  template <class Done>
  bool yield(const Done& done) {
    if (!attempt_.due()) return false;
    for (int turn = 0; turn < most_yields; ++turn) {
      const auto before = std::chrono::steady_clock::now();
      ::sched_yield();
      const bool long_gone = std::chrono::steady_clock::now() - before > long_away;
      if (long_gone) attempt_.was_in_vain();
      if (done()) {
        if (!long_gone) attempt_.helped();
        return true;
      }
      if (long_gone) return false;
    }
    return false;
  }

  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static constexpr int short_turns = 50, long_turns = 10'000;  // about 1 us, 250 us
  static constexpr int most_yields = 8;
  static constexpr std::chrono::microseconds long_away{150};

  const bool enough_cores_;
  AdaptiveBackoff attempt_;
};

/// Zero bytes are a valid doorbell, so fresh shared memory is one, too.
class alignas(64) Doorbell {
 public:
  /// Call it after the publication. It enters the kernel only when a thread sleeps.
  void ring();

  /// Returns when the number of rings differs from `heard`, with that number. For a thread that forwards rings: it
  /// waits for no condition.
  std::uint32_t wait_for_ring_after(std::uint32_t heard);

  /// Returns true once `done()` holds, and false when the deadline passed first. Exceptions from `done` propagate.
  template <class Done>
  bool wait(SpinBudget& budget, Deadline deadline, const Done& done) {
    if (done()) return true;
    if (budget.look(done)) return true;
    const Sleeper sleeper(sleepers_);
    while (true) {
      const std::uint32_t heard = rings_.load();  // before the look: a ring in between makes sleep() return at once
      if (done()) return true;
      if (!sleep(heard, deadline)) return done();
    }
  }

 private:
  struct Sleeper {
    explicit Sleeper(std::atomic<std::uint32_t>& count) : count_(count) { count_.fetch_add(1); }
    ~Sleeper() { count_.fetch_sub(1); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    std::atomic<std::uint32_t>& count_;
  };

  bool sleep(std::uint32_t heard, Deadline deadline);

  // Both are sequentially consistent: either the ringer sees the sleeper, or the sleeper sees the ring.
  std::atomic<std::uint32_t> rings_;
  std::atomic<std::uint32_t> sleepers_;
};

}  // namespace shardproof::control
