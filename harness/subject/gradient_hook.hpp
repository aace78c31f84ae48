// Gradient hooks: functions of a user that an engine calls around its reductions. The harness gives them to an engine, and notes each call.
// Source of the rules: PyTorch's register_comm_hook, set_all_reduce_hook and register_post_accumulate_grad_hook.
//
// Hooks are called by the host; what they compute they put on the stream that they are given. They throw nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "harness/device/device.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/subject/reply.hpp"

namespace shardproof {

struct HookedGradient {
  std::string label;  ///< of the group or bucket, as its collectives are tagged; of the parameter after accumulation
  /// Flat. Instead of a reduction: what this rank contributes, whole, with padding, undivided. Else: the result so far, which the hook may
  /// change in place.
  Tensor gradient;
  /// Flat. Instead of a reduction by an engine that shards: this rank's part of the result, which the hook writes. Undefined otherwise: the
  /// hook leaves the result in `gradient`.
  Tensor output;
};

struct GradientHook {
  std::uint64_t state = 0;  ///< of the user: the engine passes it to each call
  /// Empty: not callable, which engines refuse.
  std::function<Reply(std::uint64_t state, const HookedGradient& operands, Stream stream)> call;
};

/// Where a hook goes: the groups of modules at or under this path, or the parameters.
struct HookTarget {
  scenario::HookPoint point = scenario::HookPoint::reduction;
  std::string module;  ///< empty: the root's, and so all
  /// Puts the hook on this group alone, without the checks of a registration, as code around an engine may do.
  bool direct = false;
};

}  // namespace shardproof
