// Gradient hooks: a user's functions that an engine calls around its reductions. The harness gives them to an engine,
// and notes each call. Source of the rules: PyTorch's register_comm_hook, set_all_reduce_hook and
// register_post_accumulate_grad_hook.
//
// The host calls the hooks. They put their computation on the stream that they are given, and throw nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "harness/device/device.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/subject/reply.hpp"

namespace shardproof {

struct HookedGradient {
  /// The label of the group or bucket, as its collectives are tagged. After accumulation: the name of the parameter.
  std::string label;
  /// Flat. A hook instead of a reduction gets this rank's whole contribution, with padding, undivided. Other hooks get
  /// the result so far, which they may change in place.
  Tensor gradient;
  /// Flat. For a hook instead of a reduction, if the engine shards: this rank's part of the result, which the hook
  /// writes. Otherwise undefined: the hook leaves the result in `gradient`.
  Tensor output;
};

struct GradientHook {
  std::uint64_t state = 0;  ///< the user's: the engine passes it to each call
  /// Empty: the hook is not callable, and engines refuse it.
  std::function<Reply(std::uint64_t state, const HookedGradient& operands, Stream stream)> call;
};

/// The target of a hook: the groups of modules at or under this path, or the parameters.
struct HookTarget {
  HookPoint point = HookPoint::reduction;
  std::string module;  ///< empty: the root, and so all
  /// Puts the hook on this group alone, without the checks of a registration. Code around an engine may do this.
  bool direct = false;
};

}  // namespace shardproof
