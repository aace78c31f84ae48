// Explains to the user why the CUDA Toolkit of a module cannot reach a GPU here. It only makes text.
#pragma once

#include <string>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

/// The facts about a machine's GPUs.
struct DriverState {
  int driver_version = 0;  ///< The newest CUDA that the driver supports, 12040 for 12.4; 0: there is no driver.
  int runtime_version = 0;  ///< The CUDA that the module was built with.
  int gpus = 0;
  Status status = 0;  ///< The status of the call that counts the GPUs.
  std::string status_name, status_text;  ///< Of `status`.
};

/// `12.4` for 12040.
std::string version_text(int version);

/// Returns what is wrong, what was found, and what to do; empty if GPUs can be used.
std::string driver_objection(const DriverState& state);

}  // namespace shardproof::device::cuda
