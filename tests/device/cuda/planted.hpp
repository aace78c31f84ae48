// The tables of the CPU in which a call can be made to fail: of a function, the one of that number, on one thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::cuda::cpu {

const VendorTables& fragile_vendor();

struct Planted {
  std::string function;  ///< member of a table, or `launch` for all kernels
  int call = 1;          ///< from 1
  Status status = 1;     ///< returned instead of calling
};

/// From here on, on this thread: calls are counted anew, and this one fails; nullopt: none does.
void plant(std::optional<Planted> failure);
/// Whether it has come to that.
bool has_failed();
/// What this thread has called since, and how often.
const std::map<std::string, int>& calls();

}  // namespace shardproof::cuda::cpu
