// Prepares a run's options with its worker, before planning: the subject, the GPUs, and a warm process.
#pragma once

#include <filesystem>

#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

/// Finds the subject that `options` names, and its worker, like `choose_subject`. Writes the subject's name and library
/// into `options`, for plans.
Worker find_subject(PlanOptions& options, const std::filesystem::path& worker, SignalWatch& signals);

/// For ranks on GPUs, sets the backend in `options` (`--backend`, or the backend that belongs to this executable), and
/// the GPUs that ranks may have. With `--launcher`, guards find these GPUs later, on the hosts of the ranks. Throws
/// CommandError:
///   - infrastructure if there is no backend, or, without `--launcher`, no GPU,
///   - usage if the backend is not a file, or the choice of GPUs is impossible.
void find_gpus(const Worker& worker, PlanOptions& options, SignalWatch& signals);

/// Starts a warm process for these options, if ranks can be its copies. Shows the user the subject's warnings. Ranks
/// under the NCCL tap are not copies: the tap has to be loaded before their program. Ranks of a command of the user are
/// no children of the launcher.
///
/// The caller calls this before the first rank of a run. `log` is in the run's directory. The worker's runtime keeps
/// its cache in `cache`, in the same folder.
void warm_up(Worker& worker, const PlanOptions& options, const std::filesystem::path& log, SignalWatch& signals);

}  // namespace shardproof::launcher
