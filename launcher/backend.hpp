// The shared object that reaches CUDA and NCCL for ranks on GPUs. The launcher itself never loads it.
#pragma once

#include "launcher/plan.hpp"

namespace shardproof::launcher {

/// Names it in the options where ranks run on GPUs: `--backend`, or the one that was built with this executable. Throws CommandError
/// (infrastructure) when it is not there.
void find_backend(PlanOptions& options);

}  // namespace shardproof::launcher
