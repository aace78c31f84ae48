// The scenarios of the golden files of PyTorch's DistributedDataParallel, and the allowed differences of other
// arithmetic from their values.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/oracles/golden.hpp"
#include "harness/scenario/plan/replicate.hpp"
#include "tests/oracles/scenarios.hpp"

namespace shardproof::oracles {

inline std::vector<std::string> replicate_files() {
  std::vector<std::string> files;
  for (const std::string_view name : golden::names()) {
    if (name.starts_with("d_ddp")) files.emplace_back(name);
  }
  return files;
}

/// The dtype of the file's hook, or none.
inline std::optional<DType> compressed_to(std::string_view file) {
  if (file.find("fp16_compress") != std::string_view::npos) return DType::f16;
  if (file.find("bf16_compress") != std::string_view::npos) return DType::bf16;
  return std::nullopt;
}

/// One capture of each rank's own gradients before the first iteration of `nosync`, and one after each step.
inline Scenario replicate_golden(const std::string& file, const golden::Values& run) {
  Scenario scenario;
  for (const char* name : {"fc1", "fc2", "fc3", "fc4"}) scenario.model.root.children.push_back(linear(name, 16, 16));
  scenario.model.loss = {LossKind::sum_of_squares, run.loss_divisor, 0};
  replicate_plan(scenario.plan);
  scenario.plan.optimizer = {.kind = OptimizerKind::adam, .rate = 1e-3};
  scenario.script.input = run.input;
  const Action no_sync = set(ActionKind::set_requires_gradient_sync, "", false),
               sync = set(ActionKind::set_requires_gradient_sync, "", true);
  std::vector<Script::Segment>& segments = scenario.script.segments;
  if (run.unreduced) segments.push_back({1, {no_sync, forward, backward, capture, sync}});
  if (const auto dtype = compressed_to(file)) {
    const HookKind kind = *dtype == DType::f16 ? HookKind::fp16_compress : HookKind::bf16_compress;
    segments.push_back({1,
                        {{.kind = ActionKind::register_hook, .hook = Hook{.kind = kind}},
                         forward,
                         backward,
                         step,
                         capture,
                         zero_grad}});
    segments.push_back({static_cast<int>(run.iterations.size()) - 1, {forward, backward, step, capture, zero_grad}});
  } else {
    segments.push_back({static_cast<int>(run.iterations.size()), {forward, backward, step, capture, zero_grad}});
  }
  return scenario;
}

}  // namespace shardproof::oracles
