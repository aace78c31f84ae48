// Why the CUDA Toolkit that a module was built with cannot reach a GPU here, in words for whoever runs it. Nothing but text is made.
#pragma once

#include <string>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::cuda {

/// What was found of a machine's GPUs.
struct DriverState {
  int driver_version = 0;  ///< the newest CUDA that the driver knows, 12040 for 12.4; 0: there is no driver
  int runtime_version = 0;  ///< the CUDA that the module was built with
  int gpus = 0;
  Status status = 0;  ///< of counting them
  std::string status_name, status_text;  ///< of that
};

/// `12.4` for 12040.
std::string version_text(int version);

/// What is wrong, what was found, and what to do; nothing where GPUs can be used.
std::string driver_objection(const DriverState& state);

}  // namespace shardproof::cuda
