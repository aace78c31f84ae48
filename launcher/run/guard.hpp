// The guard of one rank: a small process that a command of the user (mpirun, srun, torchrun) starts in the rank's place
// (`shardproof guard --join DIRECTORY`). It starts the rank and reports its exact end, because the launcher is not the
// rank's parent.
//
// Where ranks are not all on the launcher's host, the launcher makes one guard of each host the *lead guard*. It makes
// the directory and the control page of its host, and connects the page to the hub.
//
// A guard waits on descriptors only, for:
//   - its rank. The guard puts the rank's end on the control page, and into `ranks/rank-N.end.json`.
//   - the launcher, which may ask for a signal to the rank. At the end of the connection, the guard ends its rank and
//     itself: the world is over, or the launcher is gone.
//   - signals, which it passes on to its rank. A rank that outlives them by `saving_limit` is killed.
//   - the process that started the guard. Without it, the guard ends its rank.
// A guard stays until the world is over, also after its rank has ended: mpirun and torchrun kill all other processes
// when one ends early.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shardproof::launcher {

/// The launcher writes it for the guards of a world (WorldDirectory::guard_order).
struct GuardOrder {
  std::filesystem::path worker;  ///< the program of the ranks
  std::string addresses;  ///< of the world's hub (control/link/addresses.hpp)
  /// Variables of the ranks that the launcher sets, and that are not in its own environment.
  std::map<std::string, std::string> environment;
};

void to_json(nlohmann::ordered_json& json, const GuardOrder& order);
void from_json(const nlohmann::ordered_json& json, GuardOrder& order);

/// A variable of this process, for protocol::identity. Ignores this project's own variable: a run in a rank of another
/// run has it.
const char* foreign_variable(const char* name);

/// Runs the guard of the rank that this process's environment names, in the world of this directory. Returns the exit
/// code of this process, which is 0 however the rank ends. Throws CommandError if it cannot reach the launcher of this
/// world.
int guard_rank(const std::filesystem::path& world);

}  // namespace shardproof::launcher
