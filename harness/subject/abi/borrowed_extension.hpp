// The far side of an all-gather extension: its C functions as hooks, for a subject in C++.
#pragma once

#include "harness/subject/abi/borrowed_seat.hpp"
#include "harness/subject/extension.hpp"

namespace shardproof::abi {

/// The device has to outlive it, and the extension in C has to be valid as long as its hooks are called.
AllGatherExtension borrowed_extension(BorrowedDevice& device, const shardproof_extension& extension);

}  // namespace shardproof::abi
