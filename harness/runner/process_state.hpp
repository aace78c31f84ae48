// ProcessState finds what a case has left changed in its rank's process: threads, resource limits, signals, a timer,
// the umask, the working directory. Later cases run in the same process, and would get the blame.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace shardproof::runner {

class ProcessState {
 public:
  /// Changes that are no finding.
  struct Allowed {
    bool threads = false;  ///< The case says that it keeps threads.
    bool signal_handlers = false;  ///< A runtime in the process handles signals.
    std::function<bool(pid_t)> is_of_runtime = {};  ///< A runtime keeps this thread. Empty: no thread.
  };

  /// Keeps the state as it is now. The calling thread runs the cases. `is_shared`: other ranks are threads of the same
  /// process. Only the signal mask of the calling thread then belongs to this rank, and nothing else is compared.
  explicit ProcessState(bool is_shared);

  /// Keeps the threads that exist before the case.
  void begin_case();
  /// Returns up to two sentences about what the case has left. Empty: the process is as the case found it. Waits for
  /// threads that may be about to end: until they have slept for 50 ms, or for 5 s. So that the rank can still report
  /// its results, restores the death signal, stops a timer, and restores limits as far as the process may.
  std::vector<std::string> changes(const Allowed& allowed);

 private:
  /// All that exists once in a process or in the calling thread.
  struct Settings {
    sigset_t blocked{};
    std::array<rlimit, RLIMIT_NLIMITS> limits{};
    std::array<void (*)(int), 32> handlers{};  ///< by number of the signal
    bool has_timer = false;
    int death_signal = 0;  ///< the signal at the end of the rank's parent, which ends the rank; 0: none
    dev_t directory_device = 0;  ///< of the working directory
    ino_t directory_file = 0;
  };
  static Settings read(bool is_shared);

  void restore(const Settings& now) const;
  std::vector<std::string> changed_signals(const Settings& now, const Allowed& allowed) const;
  void add_changed_settings(const Settings& now, std::vector<std::string>& changes) const;
  /// Whether a case or a runtime keeps threads that may end at any time.
  bool has_kept_threads() const { return threads_.size() != own_threads_; }
  std::vector<pid_t> threads_left(const Allowed& allowed) const;

  const bool is_shared_;
  const Settings before_;
  mode_t umask_ = 0;
  std::string directory_;
  std::vector<pid_t> threads_;  ///< sorted
  std::size_t own_threads_ = 0;  ///< before the first case
};

}  // namespace shardproof::runner
