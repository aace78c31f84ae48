// Processes that ranks have started and not ended. A daemon leaves its rank's process group, so that killing the group
// does not kill the daemon.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace shardproof::launcher {

/// The rank number in the environment of ranks that are threads of one process.
inline constexpr char all_ranks[] = "all";

struct Leftover {
  pid_t process = 0;
  std::string name;     ///< the kernel's name for it
  /// The rank that started it, by its environment. `all_ranks`: a process that is all ranks. Empty: its environment
  /// does not say.
  std::string rank;
  bool is_gone = true;  ///< false: SIGKILL did not end it
};

/// Finds and ends leftovers. From construction on, this process adopts the orphans among all of its descendants.
class Leftovers {
 public:
  /// `ours` are children that this process has started already. They are not leftovers. Children that another process
  /// left to this process earlier are not leftovers either.
  explicit Leftovers(std::span<const pid_t> ours = {});
  /// Ends the leftovers that no call of `end` or `end_of` has returned.
  ~Leftovers();
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  /// Kills and reaps all processes that ranks of this process have left to it. The caller makes sure that no rank
  /// lives.
  std::vector<Leftover> end();
  /// The same for the ranks that had this plan, while other ranks live. A process that hides its rank stays until no
  /// rank lives.
  std::vector<Leftover> end_of(const std::filesystem::path& plan);

 private:
  /// `is_ours` gets a child's process id and environment.
  std::vector<Leftover> end_those(const std::function<bool(pid_t, std::string_view)>& is_ours) const;

  /// The program that started this process may have left children to it. Such children can leave more. Then only a
  /// child's environment shows its rank.
  bool has_foreign_children_;
  std::set<pid_t> before_;  ///< children at construction
};

/// `process 123 (name), started by rank 1, running; the launcher killed it`
std::string describe(const Leftover& leftover);

}  // namespace shardproof::launcher
