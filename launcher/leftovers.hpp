// Processes that ranks have started and not ended: what has left its rank's process group, as daemons do, is not killed with it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace shardproof::launcher {

/// From here on, orphans among this process's descendants become its own children, wherever between the two a parent has ended.
void adopt_orphans() noexcept;

struct Leftover {
  pid_t process = 0;
  std::string name;         ///< the kernel's word for it
  std::string rank;         ///< that started it, by its environment; `all`: ranks that are threads; empty: unknown
  bool is_gone = true;      ///< no: SIGKILL did not end it
};

/// Kills and reaps all that ranks of this process have started and left to it. To be called when no rank lives.
std::vector<Leftover> end_leftovers();

/// `process 123 (name), started by rank 1, behind; it was killed`
std::string describe(const Leftover& leftover);

}  // namespace shardproof::launcher
