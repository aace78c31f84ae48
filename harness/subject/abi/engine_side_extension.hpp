// Turns an all-gather extension in C into hooks for a subject in C++. This is the subject's side of the boundary.
#pragma once

#include "harness/subject/abi/engine_side.hpp"
#include "harness/subject/extension.hpp"

namespace shardproof::subject::abi {

/// The device must outlive the hooks. The extension in C must be valid as long as its hooks are called.
AllGatherExtension engine_side_extension(EngineSideDevice& device, const shardproof_extension& extension);

}  // namespace shardproof::subject::abi
