#include "harness/nccl_tap/stream_stall.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>

#include "harness/nccl_tap/symbol_lookup.hpp"

namespace shardproof::nccl_tap {

namespace {

/// cuLaunchHostFunc of libcuda.so.1. The CUDA runtime's function would do as well. But the runtime is mostly linked
/// into the engine, where a lookup by name does not find it.
using LaunchHostFunction = int (*)(cudaStream_t stream, void (*function)(void*), void* argument);

LaunchHostFunction launch_host_function() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : reinterpret_cast<LaunchHostFunction>(system_dlsym(driver, "cuLaunchHostFunc"));
}

/// Runs in a thread of the driver and may not call CUDA. The argument is the duration itself, so there is no memory to
/// free.
void sleep_on_stream(void* duration) {
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(duration))));
}

void say_once(const char* why, int status) {
  static std::atomic<bool> is_said = false;
  if (is_said.exchange(true)) return;
  std::fprintf(stderr, "shardproof: SHARDPROOF_NCCL_FAULTS: cannot stall a stream: %s", why);
  if (status != 0) std::fprintf(stderr, " answered %d", status);
  std::fputs("; the tap passes the call on unchanged\n", stderr);
}

}  // namespace

bool stall_stream(cudaStream_t stream, std::chrono::nanoseconds duration) {
  const LaunchHostFunction launch = launch_host_function();
  if (launch == nullptr) {
    say_once("this process has loaded no CUDA driver (libcuda.so.1) with cuLaunchHostFunc", 0);
    return false;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a graph may replay it any number of times, so the argument owns no
  // memory
  void* const argument = reinterpret_cast<void*>(static_cast<std::uintptr_t>(duration.count()));
  const int status = launch(stream, sleep_on_stream, argument);
  if (status != 0) say_once("cuLaunchHostFunc", status);
  return status == 0;
}

}  // namespace shardproof::nccl_tap
