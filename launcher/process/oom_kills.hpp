// Counts the processes that the kernel has killed because memory ran out. Such a process ends by SIGKILL, like a
// process that a user kills. Only this counter shows the difference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

namespace shardproof::launcher {

/// The file with the counter of the control group of this process, or of the machine where there is no group.
/// `groups`: the content of /proc/self/cgroup. The file may not exist.
std::filesystem::path oom_counter_file(std::string_view groups);

/// The number after `oom_kill` in such a file. None if it is not there.
std::optional<std::uint64_t> oom_kills_in(std::string_view text);

/// The number so far, in the control group of this process. None if the system does not report it.
std::optional<std::uint64_t> oom_kills();

/// Hands out each kill once, as the reason for one SIGKILL. All worlds of a launcher share it: the counter does not say
/// which process was killed. So a kill in one world does not explain every later SIGKILL there or in another world.
class OomKills {
 public:
  using Counter = std::function<std::optional<std::uint64_t>()>;

  explicit OomKills(Counter count = oom_kills);

  /// Call this for a process that SIGKILL has ended, if the launcher did not send the signal. Returns whether the
  /// counter has a kill that no other process was given. This process is then given that kill.
  bool take();
  /// Call this while no rank runs: the kills so far belong to no rank.
  void forget();

 private:
  Counter count_;
  std::optional<std::uint64_t> given_;  ///< the value of the counter when the last kill that was handed out happened
};

}  // namespace shardproof::launcher
