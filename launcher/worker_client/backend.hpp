// The shared object that reaches CUDA and NCCL for ranks on GPUs, and which GPUs it reaches. The launcher itself never loads it: a worker is
// asked.
#pragma once

#include <filesystem>

#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

/// Where the one is that was built with this executable, whether or not it was.
std::filesystem::path built_backend();

/// The one that `--backend` names, in full. Throws CommandError (usage) when it is no file.
std::filesystem::path named_backend(const std::filesystem::path& asked);

/// Where ranks run on GPUs, puts into the options which backend reaches them (`--backend`, or the one that was built with this executable) and
/// the GPUs that they may have. Throws CommandError: infrastructure when there is no backend or no GPU, usage for a file that is none
/// and for a choice among them that cannot be.
void find_gpus(const Worker& worker, PlanOptions& options, SignalWatch& signals);

}  // namespace shardproof::launcher
