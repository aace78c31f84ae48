// FreeTime tells a process that does not go on from one that waits for a processor. On a busy machine, a process may
// get none for a second, and then it can show no progress.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof::launcher {

/// The kernel's numbers of one thread.
struct ThreadLook {
  pid_t thread = 0;
  char state = 'S';  ///< as in /proc/PID/stat: R has a processor, or wants one
  std::chrono::nanoseconds ran{0}, waited{0};  ///< on a processor, and ready for one

  bool operator==(const ThreadLook&) const = default;
};

/// From the contents of the thread's `stat` and `schedstat`. nullopt: they do not say how long it
/// ran.
std::optional<ThreadLook> read_look(pid_t thread, std::string_view stat, std::string_view schedstat);

/// All threads of the process. Empty: it has ended, or is not visible, or the system does not say how
/// long threads ran.
std::vector<ThreadLook> look_at_threads(pid_t process);

/// Sums up, for each thread, the time in which it ran, or needed no processor: never more than it had. Pure.
class FreeTime {
 public:
  /// `now` grows from look to look. Threads that begin after the first look are not counted.
  void look(const std::vector<ThreadLook>& threads, control::Deadline now);
  /// The time of the thread that had the least. nullopt: no thread is known, or those of the first look have ended.
  std::optional<std::chrono::nanoseconds> least() const;

 private:
  struct Thread {
    ThreadLook last;
    std::chrono::nanoseconds free{0};
  };
  std::map<pid_t, Thread> threads_;
  std::optional<control::Deadline> last_look_;
};

}  // namespace shardproof::launcher
