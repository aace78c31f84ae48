// Turns an all-gather extension in C into hooks for a subject in C++. This is the subject's side of the boundary.
#pragma once

#include "harness/subject/abi/borrowed_seat.hpp"
#include "harness/subject/extension.hpp"

namespace shardproof::abi {

/// The device must outlive the hooks. The extension in C must be valid as long as its hooks are called.
AllGatherExtension borrowed_extension(BorrowedDevice& device, const shardproof_extension& extension);

}  // namespace shardproof::abi
