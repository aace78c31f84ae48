// The CPU's tables with planted failures: a test can make the n-th call of a function fail, on one thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda::cpu {

const VendorTables& fragile_vendor();

struct Planted {
  std::string function;  ///< member of a table, or `launch` for all kernels
  int call = 1;          ///< from 1
  Status status = 1;     ///< returned instead of calling
};

/// Restarts the count of calls on this thread, and makes the planted call fail. With nullopt, no call fails.
void plant(std::optional<Planted> failure);
/// Whether the planted call has failed.
bool has_failed();
/// The number of calls of each function since `plant`, on this thread.
const std::map<std::string, int>& calls();

}  // namespace shardproof::device::cuda::cpu
