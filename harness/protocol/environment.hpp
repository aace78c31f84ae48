// Who am I? The variables by which a launcher, ours or another, tells a process its rank.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace shardproof {

namespace environment {
inline constexpr char rank[] = "SHARDPROOF_RANK";      ///< a number; `all` where the plan has them as threads of one process
inline constexpr char plan[] = "SHARDPROOF_PLAN";      ///< path of the WorldPlan file
inline constexpr char parent[] = "SHARDPROOF_PARENT";  ///< pid of the launcher: a rank ends with it
inline constexpr char debug[] = "SHARDPROOF_DEBUG";    ///< set for a rank that is to wait for a debugger
inline constexpr char nccl_tap[] = "SHARDPROOF_NCCL_TAP";        ///< where a process records its calls of NCCL
inline constexpr char nccl_faults[] = "SHARDPROOF_NCCL_FAULTS";  ///< what becomes of some of them (nccl_faults.hpp)
}  // namespace environment

struct Identity {
  int rank = 0;
  int world_size = 0;     ///< 0 where the plan says it
  std::string launcher;   ///< `shardproof`, `torchrun`, `mpirun`, `srun`
};

/// Reads an environment through `get` (a name to its value or nothing). Understood, first match wins: our own variable; RANK and WORLD_SIZE
/// (torchrun); OMPI_COMM_WORLD_* and PMI_* (mpirun); SLURM_PROCID and SLURM_NTASKS (srun). Throws std::invalid_argument on a value that is
/// no number or out of range, naming the variable.
std::optional<Identity> identity(const std::function<const char*(const char*)>& get);

/// The name of this machine.
std::string host_name();

}  // namespace shardproof
