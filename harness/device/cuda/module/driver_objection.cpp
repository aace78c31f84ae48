#include "harness/device/cuda/module/driver_objection.hpp"

#include <fmt/format.h>

namespace shardproof::device::cuda {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string driver_objection(const DriverState& state) {
  // a driver for a major version serves all its minor versions
  const std::string needed = fmt::format("CUDA {}.0 or later", state.runtime_version / 1000);
  if (state.driver_version == 0) {
    return fmt::format(
        "there is no NVIDIA driver here: its libcuda.so.1 was not found. Install a driver for {}. In a "
        "container, start docker with --gpus all",
        needed);
  }
  const std::string driver = fmt::format("the NVIDIA driver here is for CUDA {}", version_text(state.driver_version));
  if (state.driver_version / 1000 < state.runtime_version / 1000) {
    return fmt::format(
        "{}, but this build uses CUDA {} and needs a driver for {}: install a newer driver, or build with an older "
        "toolkit",
        driver, version_text(state.runtime_version), needed);
  }
  if (state.status != 0) {
    return fmt::format("{} and cannot count the GPUs, {} ({}): {}; run nvidia-smi for details", driver,
                       state.status_name, state.status, state.status_text);
  }
  if (state.gpus == 0) return driver + " and shows no GPU to this process; check CUDA_VISIBLE_DEVICES";
  return {};
}

}  // namespace shardproof::device::cuda
