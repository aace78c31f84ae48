// A process's identity: the environment variables by which a launcher, ours or another, gives a process its rank.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace shardproof::protocol {

namespace environment {
/// A number, or `all` where the plan makes the ranks threads of one process.
inline constexpr char rank[] = "SHARDPROOF_RANK";
inline constexpr char plan[] = "SHARDPROOF_PLAN";      ///< Path of the WorldPlan file.
inline constexpr char parent[] = "SHARDPROOF_PARENT";  ///< Pid of the launcher. A rank ends when its launcher ends.
/// Pid of the process whose tools examine a rank that hangs. Not set: the parent above.
inline constexpr char tracer[] = "SHARDPROOF_TRACER";
inline constexpr char debug[] = "SHARDPROOF_DEBUG";    ///< Set for a rank that must wait for a debugger.
/// Only in a warm process: text without a meaning. Its place becomes free for the variables of ranks.
inline constexpr char room[] = "SHARDPROOF_ROOM";
/// File or directory for the process's record of its NCCL calls.
inline constexpr char nccl_tap[] = "SHARDPROOF_NCCL_TAP";
inline constexpr char nccl_faults[] = "SHARDPROOF_NCCL_FAULTS";  ///< Faults for some of these calls (nccl_faults.hpp).
}  // namespace environment

struct Identity {
  int rank = 0;
  int world_size = 0;  ///< 0 where the plan holds it
  std::string launcher;  ///< `shardproof`, `torchrun`, `mpirun`, `srun`
  std::string variables;  ///< `RANK and WORLD_SIZE`: where the rank and the size are from
  /// The launcher's own name of this start, the same on all its ranks: `SLURM_JOB_ID=12, SLURM_STEP_ID=0`. Empty: the
  /// launcher gives none.
  std::string job;
};

/// Reads an environment through `get`, which maps a name to its value or nullptr. The first match wins, in this order:
/// - `SHARDPROOF_RANK`, our own variable
/// - `RANK` and `WORLD_SIZE` (torchrun)
/// - `OMPI_COMM_WORLD_*`, `PMIX_RANK` and `PMI_*` (mpirun)
/// - `PMIX_RANK` or `SLURM_PROCID`, with `SLURM_NTASKS` (srun). A batch script has them, too, and is no rank: they
///   count only in a step, which has a `SLURM_STEP_ID`.
///
/// Throws std::invalid_argument, which names the variable, for a value that is not a number or is out of range, and for
/// a rank without its world size.
std::optional<Identity> identity(const std::function<const char*(const char*)>& get);

/// A variable of this process, or nullptr: for functions that read an environment.
const char* own_variable(const char* name);

/// The name of this machine.
std::string host_name();

}  // namespace shardproof::protocol
