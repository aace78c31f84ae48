// A word in shared memory on which processes and threads sleep until somebody says that something has changed. It carries no data: whoever
// rings has published before, whoever wakes looks for itself. It outlives the death of any sleeper or ringer; what remains of a dead sleeper is
// a count that costs later ringers a system call, never a wakeup.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace shardproof {

/// Absolute, monotonic.
using Deadline = std::chrono::steady_clock::time_point;

/// Zero bytes are a valid doorbell, so that fresh shared memory is.
class alignas(64) Doorbell {
 public:
  /// Call after the publication. Enters the kernel only when somebody sleeps.
  void ring();

  /// Returns once `done()` holds, or false when the deadline passed before. What `done` throws goes through. Looks `spins` times before it sleeps.
  template <class Done>
  bool wait(int spins, Deadline deadline, const Done& done) {
    if (done()) return true;
    for (int spin = 0; spin < spins; ++spin) {
      relax();
      if (done()) return true;
    }
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
