// The GPU backend, a shared object that reaches CUDA and NCCL for ranks. Finds it and its GPUs. The launcher itself
// never loads it, but asks a worker.
#pragma once

#include <filesystem>

#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

/// The path of the backend that belongs to this executable. The file may be missing.
std::filesystem::path built_backend();

/// The full path of the backend that `--backend` names. Throws CommandError (usage) if it is not a file.
std::filesystem::path named_backend(const std::filesystem::path& asked);

/// For ranks on GPUs, sets the backend in `options` (`--backend`, or the backend that belongs to this executable), and
/// the GPUs that ranks may have. Throws CommandError:
///   - infrastructure if there is no backend or no GPU,
///   - usage if the backend is not a file, or the choice of GPUs is impossible.
void find_gpus(const Worker& worker, PlanOptions& options, SignalWatch& signals);

}  // namespace shardproof::launcher
