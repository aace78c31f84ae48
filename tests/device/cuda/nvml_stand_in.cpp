// A fake NVML with the functions that this project uses, for one machine of two GPUs that NVLink joins. One GPU is
// idle, and the other is too hot. A third GPU reports nothing.
#include <cstring>

namespace {

constexpr int success = 0, not_supported = 3, not_found = 6;
int begun = 0;
int gpus[3];

}  // namespace

extern "C" {
int nvmlInit_v2() { return ++begun == 1 ? success : 2; }
int nvmlShutdown() { return --begun == 0 ? success : 1; }

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (begun != 1) return 1;
  for (int i = 0; i < 3; ++i) {
    const char name[] = {'G', 'P', 'U', '-', static_cast<char>('0' + i), '\0'};
    if (std::strcmp(uuid, name) == 0) *device = &gpus[i];
    if (std::strcmp(uuid, name) == 0) return success;
  }
  return not_found;
}

int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  if (device == &gpus[2]) return not_supported;
  *mhz = type == 1 ? 1200 : type == 2 ? 2600 : 0;
  return success;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  if (device == &gpus[2]) return not_supported;
  *bits = device == &gpus[1] ? 0x60 : 0x1;
  return success;
}

int nvmlDeviceGetP2PStatus(void* one, void* other, int capability, int* status) {
  const bool are_joined = one != &gpus[2] && other != &gpus[2];
  if (capability != 2) return not_supported;
  *status = are_joined ? 0 : 4;
  return success;
}
}
