#include "harness/device/cuda/module/nvml.hpp"

#include <dlfcn.h>

namespace shardproof::device::cuda {

namespace {

// NVML's own numbers.
constexpr int clock_sm = 1, clock_memory = 2;  // nvmlClockType_t
constexpr int p2p_by_nvlink = 2;  // nvmlGpuP2PCapsIndex_t
constexpr int p2p_is_ok = 0;  // nvmlGpuP2PStatus_t
constexpr std::int32_t khz_per_mhz = 1000;

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

Nvml::Nvml(const char* library) : library_(::dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  look_up(library_, "nvmlInit_v2", init_);
  look_up(library_, "nvmlShutdown", shutdown_);
  look_up(library_, "nvmlDeviceGetHandleByUUID", by_uuid_);
  look_up(library_, "nvmlDeviceGetClockInfo", clock_);
  look_up(library_, "nvmlDeviceGetCurrentClocksThrottleReasons", reasons_);
  look_up(library_, "nvmlDeviceGetP2PStatus", p2p_status_);
  is_begun_ = init_ != nullptr && shutdown_ != nullptr && by_uuid_ != nullptr && init_() == 0;
}

// The library stays loaded, because its threads may still run.
Nvml::~Nvml() {
  if (is_begun_) shutdown_();
}

Nvml::Device Nvml::find(const std::string& uuid) const {
  Device device = nullptr;
  return is_begun_ && by_uuid_(uuid.c_str(), &device) == 0 ? device : nullptr;
}

GpuState Nvml::state(const std::string& uuid) const {
  GpuState state{.clock_khz = 0, .memory_clock_khz = 0, .slowed_by = -1};
  Device device = find(uuid);
  if (device == nullptr) return state;
  const auto khz = [&](int type) {
    unsigned mhz = 0;
    return clock_ != nullptr && clock_(device, type, &mhz) == 0 ? static_cast<std::int32_t>(mhz) * khz_per_mhz : 0;
  };
  state.clock_khz = khz(clock_sm);
  state.memory_clock_khz = khz(clock_memory);
  unsigned long long bits = 0;
  if (reasons_ != nullptr && reasons_(device, &bits) == 0) state.slowed_by = static_cast<std::int64_t>(bits);
  return state;
}

std::int32_t Nvml::nvlink(const std::string& uuid, const std::string& other) const {
  Device one = find(uuid), two = find(other);
  int status = -1;
  if (one == nullptr || two == nullptr || p2p_status_ == nullptr || p2p_status_(one, two, p2p_by_nvlink, &status) != 0)
    return -1;
  return status == p2p_is_ok ? 1 : 0;
}

}  // namespace shardproof::device::cuda
