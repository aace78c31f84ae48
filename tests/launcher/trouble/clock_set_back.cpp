// A library for LD_PRELOAD that is loaded before all others. The wall clock of its process goes back by an hour at
// every look.
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
