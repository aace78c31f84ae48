// Processes that ranks have started and not ended: what has left its rank's process group, as daemons do, is not killed with it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace shardproof::launcher {

/// From here on, orphans among this process's descendants become its own children, wherever between the two a parent has ended.
void adopt_orphans() noexcept;

struct Leftover {
  pid_t process = 0;
  std::string name;         ///< the kernel's word for it
  std::optional<int> rank;  ///< by its environment
};

/// Kills all children of this process, and what they leave, and reaps them. To be called when none of them is anybody's any more.
std::vector<Leftover> end_leftovers();

/// `process 123 (name), started by rank 1`
std::string describe(const Leftover& leftover);

}  // namespace shardproof::launcher
