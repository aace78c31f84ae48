// NVML, for facts about GPUs that CUDA does not report: their current clocks, what slows them down, and which of them
// NVLink joins. NVML comes with the driver. Its header does not come with every toolkit or driver. So this file
// declares the few functions, as NVML's documentation has them, and looks them up when it loads the library. A missing
// fact is unknown.
#pragma once

#include <cstdint>
#include <string>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

class Nvml {
 public:
  /// Loads the library by the loader's rules. If it is missing or does not start, everything is unknown.
  explicit Nvml(const char* library);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  GpuState state(const std::string& uuid) const;
  /// 1: joined by NVLink; 0: not joined; -1: unknown.
  std::int32_t nvlink(const std::string& uuid, const std::string& other) const;

 private:
  using Device = void*;  // nvmlDevice_t
  using Result = int;    // nvmlReturn_t; 0: success

  Device find(const std::string& uuid) const;

  void* library_ = nullptr;
  bool is_begun_ = false;
  Result (*init_)() = nullptr;
  Result (*shutdown_)() = nullptr;
  Result (*by_uuid_)(const char* uuid, Device* device) = nullptr;
  Result (*clock_)(Device device, int type, unsigned* mhz) = nullptr;
  Result (*reasons_)(Device device, unsigned long long* bits) = nullptr;
  Result (*p2p_status_)(Device one, Device other, int capability, int* status) = nullptr;
};

}  // namespace shardproof::device::cuda
