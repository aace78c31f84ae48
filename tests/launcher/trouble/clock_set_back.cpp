// To be loaded before all libraries of a process (LD_PRELOAD): its wall clock goes back by an hour whenever somebody
// looks at it.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static std::atomic<time_t> looks = 0;
  const auto status = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (status == 0 && clock == CLOCK_REALTIME) time->tv_sec -= 3600 * ++looks;
  return status;
}
