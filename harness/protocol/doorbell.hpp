// A word in shared memory on which processes and threads sleep until somebody says that something has changed. It carries no data: whoever
// rings has published before, whoever wakes looks for itself. It outlives the death of any sleeper or ringer; what remains of a dead
// sleeper is a count that costs later ringers a system call, never a wakeup.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace shardproof {

/// Absolute, monotonic.
using Deadline = std::chrono::steady_clock::time_point;

/// How often to look before going to sleep. What we wait for is mostly either under way on another core, and there in a microsecond, or its
/// maker has no core, perhaps because we are spinning on it. So spinning that paid off is worth more next time, and spinning in vain less:
/// measured on 2 cores that were busy otherwise as well, a fixed 1000 made 2 ranks share one core and take turns every 45 us.
class SpinBudget {
 public:
  SpinBudget(int least, int most) : least_(least), most_(most), looks_(most) {}

  int looks() const { return looks_.load(std::memory_order_relaxed); }
  void paid_off() {
    if (const int now = looks(); now < most_) looks_.store(std::min(most_, 2 * now + 1), std::memory_order_relaxed);
  }
  void was_in_vain() {
    if (const int now = looks(); now > least_) looks_.store(std::max(least_, now / 2), std::memory_order_relaxed);
  }

 private:
  const int least_, most_;
  std::atomic<int> looks_;  ///< an estimate: threads that share it may overwrite each other's
};

/// Zero bytes are a valid doorbell, so that fresh shared memory is.
class alignas(64) Doorbell {
 public:
  /// Call after the publication. Enters the kernel only when somebody sleeps.
  void ring();

  /// Returns once `done()` holds, or false when the deadline passed before. What `done` throws goes through.
  template <class Done>
  bool wait(SpinBudget& spins, Deadline deadline, const Done& done) {
    if (done()) return true;
    for (int look = spins.looks(); look > 0; --look) {
      relax();
      if (done()) {
        spins.paid_off();
        return true;
      }
    }
    spins.was_in_vain();
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

  static void relax();
  bool sleep(std::uint32_t heard, Deadline deadline);

  // Both sequentially consistent: either the ringer sees the sleeper, or the sleeper sees the ring.
  std::atomic<std::uint32_t> rings_;
  std::atomic<std::uint32_t> sleepers_;
};

inline void Doorbell::relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace shardproof
