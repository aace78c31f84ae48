// The norms that gradients had before each clip_grad_norm. The harness computes them from the gradients of all ranks,
// in double precision: no engine is asked. Pure.
#pragma once

#include <span>
#include <vector>

#include "harness/protocol/play_result.hpp"

namespace shardproof::reports {

struct GradientNorm {
  int iteration = 0;
  double norm = 0, max_norm = 0;
};

/// One for each clip_grad_norm, in the order of the script. Copies of one part count once.
std::vector<GradientNorm> gradient_norms(std::span<const protocol::PlayResult> ranks);

}  // namespace shardproof::reports
