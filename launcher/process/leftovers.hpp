// Processes that ranks have started and not ended: what has left its rank's process group, as daemons do, is not killed with it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace shardproof::launcher {

/// What ranks that are threads of one process have in their environment for the number of a rank.
inline constexpr char all_ranks[] = "all";

struct Leftover {
  pid_t process = 0;
  std::string name;     ///< the kernel's word for it
  std::string rank;     ///< that started it, by its environment; `all_ranks` of a process that is all of them; empty: it does not say
  bool is_gone = true;  ///< no: SIGKILL did not end it
};

/// From its construction on, orphans among this process's descendants become its own children, wherever between the two a parent has ended.
class Leftovers {
 public:
  /// What this process has started already, `ours`, is none of them, nor is what somebody else has left to it before.
  explicit Leftovers(std::span<const pid_t> ours = {});
  /// Ends what nobody has been told of.
  ~Leftovers();
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  /// Kills and reaps all that ranks of this process have left to it. To be called when no rank lives.
  std::vector<Leftover> end();
  /// The same of the ranks that had this plan, while others live; who hides whose it is stays until none does.
  std::vector<Leftover> end_of(const std::filesystem::path& plan);

 private:
  /// `is_ours` is told a child's process and environment.
  std::vector<Leftover> end_those(const std::function<bool(pid_t, std::string_view)>& is_ours) const;

  /// Whoever started this process may have left it children, and those may leave it theirs: then only a child's environment says whose it is.
  bool has_foreign_children_;
  std::set<pid_t> before_;  ///< children that were there before
};

/// `process 123 (name), started by rank 1, behind; it was killed`
std::string describe(const Leftover& leftover);

}  // namespace shardproof::launcher
