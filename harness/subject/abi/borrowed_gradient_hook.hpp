// The far side of a gradient hook: its C function as a hook, for a subject in C++.
#pragma once

#include "harness/subject/abi/borrowed_seat.hpp"
#include "harness/subject/gradient_hook.hpp"

namespace shardproof::abi {

/// The device has to outlive it, and the hook in C has to be valid as long as it is called.
GradientHook borrowed_gradient_hook(const BorrowedDevice& device, const shardproof_gradient_hook& hook);

}  // namespace shardproof::abi
