#include "harness/control/doorbell.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <system_error>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shardproof::control {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
                  sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "the kernel compares the word itself");

// FUTEX_PRIVATE_FLAG is not set, because other processes sleep on the same word. FUTEX_WAIT_BITSET takes an absolute
// time of CLOCK_MONOTONIC, the clock that std::chrono::steady_clock uses.

void Doorbell::ring() {
  rings_.fetch_add(1);
  if (sleepers_.load() == 0) return;
  ::syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint32_t Doorbell::wait_for_ring_after(std::uint32_t heard) {
  const Sleeper sleeper(sleepers_);
  while (rings_.load() == heard) sleep(heard, Deadline::max());
  return rings_.load();
}

bool Doorbell::sleep(std::uint32_t heard, Deadline deadline) {
  using namespace std::chrono;
  const auto since_boot = std::max(nanoseconds(0), duration_cast<nanoseconds>(deadline.time_since_epoch()));
  const auto whole = duration_cast<seconds>(since_boot);
  timespec until{};
  until.tv_sec = static_cast<std::time_t>(whole.count());
  until.tv_nsec = static_cast<long>((since_boot - whole).count());
  if (::syscall(SYS_futex, &rings_, FUTEX_WAIT_BITSET, heard, &until, nullptr, FUTEX_BITSET_MATCH_ANY) == 0)
    return true;
  if (errno == EAGAIN || errno == EINTR) return true;
  if (errno == ETIMEDOUT) return false;
  throw std::system_error(errno, std::generic_category(), "futex wait on a doorbell of the world");
}

}  // namespace shardproof::control
