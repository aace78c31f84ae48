// Turns a gradient hook in C into a hook for a subject in C++. This is the subject's side of the boundary.
#pragma once

#include "harness/subject/abi/engine_side.hpp"
#include "harness/subject/gradient_hook.hpp"

namespace shardproof::subject::abi {

/// The device must outlive the hook. The hook in C must be valid as long as it is called.
GradientHook engine_side_gradient_hook(const EngineSideDevice& device, const shardproof_gradient_hook& hook);

}  // namespace shardproof::subject::abi
