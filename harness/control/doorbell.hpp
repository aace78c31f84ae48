// A word in shared memory on which processes and threads sleep until somebody says that something has changed. It carries no data: whoever
// rings has published before, whoever wakes looks for itself. It outlives the death of any sleeper or ringer; what remains of a dead
// sleeper is a count that costs later ringers a system call, never a wakeup.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#include <sched.h>

namespace shardproof {

/// Absolute, monotonic.
using Deadline = std::chrono::steady_clock::time_point;

/// Thrown when one passes; names the ranks that have not arrived and what each last did, or what is missing.
class DeadlineExceeded : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Something dear that mostly helps: done as long as it does, and otherwise left out for 32 waits, then for twice as many each time.
class Attempt {
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

  std::atomic<int> left_{0};  ///< waits still to come without it
  std::atomic<int> pause_{shortest};
};

/// What to do before going to sleep. What we wait for is mostly either under way on another core, and there in a microsecond, or its maker
/// has no core, perhaps because we are sitting on it. Estimates only: threads that share them may overwrite each other's.
class Patience {
 public:
  /// `enough_cores`: for everybody who may have to work for us to go on.
  explicit Patience(bool enough_cores) : enough_cores_(enough_cores) {}

  /// True once `done()`; false: it is time to sleep.
  template <class Done>
  bool look(const Done& done) {
    return enough_cores_ ? spin(done) : yield(done);
  }

 private:
  /// Long enough for a peer that has to be woken, or two ranks that have once gone to sleep would wake each other too late for ever: 400 ns
  /// for an all-reduce became 20 us, and stayed. Where that is in vain, a short while: on 2 cores that were busy otherwise as well, always
  /// 1000 turns made 2 ranks share one core and take turns on it every 45 us.
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

  /// Giving the core away is the quickest way to whoever waits for it, as long as that is a peer with little to do: 4 us for an all-reduce
  /// of 4 ranks on 2 cores of their own, against 20 with sleeping at once. When it goes to somebody who keeps it, a sleeper is back sooner.
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
  Attempt attempt_;
};

/// Zero bytes are a valid doorbell, so that fresh shared memory is.
class alignas(64) Doorbell {
 public:
  /// Call after the publication. Enters the kernel only when somebody sleeps.
  void ring();

  /// Returns once `done()` holds, or false when the deadline passed before. What `done` throws goes through.
  template <class Done>
  bool wait(Patience& patience, Deadline deadline, const Done& done) {
    if (done()) return true;
    if (patience.look(done)) return true;
    const Sleeper sleeper(sleepers_);
    while (true) {
      const std::uint32_t heard = rings_.load();  // before looking: a ring in between makes sleep() return at once
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

  // Both sequentially consistent: either the ringer sees the sleeper, or the sleeper sees the ring.
  std::atomic<std::uint32_t> rings_;
  std::atomic<std::uint32_t> sleepers_;
};

}  // namespace shardproof
