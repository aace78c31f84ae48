#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "harness/device/cuda/kernels/kernels.hpp"

namespace shardproof::device::cuda {
namespace {

/// Thread k computes k, k + all threads, …
template <class Body> __global__ void run(const Body body, const std::int64_t count) {
  const std::int64_t threads = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads) body(i);
}

/// Nanoseconds on a clock that is the same for the whole device and does not follow its frequency.
__device__ std::int64_t now() {
  std::int64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

/// Reads the word itself, each time: the host writes it.
__device__ bool is_set(const std::uint32_t* flag) { return *static_cast<const volatile std::uint32_t*>(flag) != 0; }

/// Waits between two reads of a flag, so that the thread leaves issue slots, and the bus, to other threads.
__device__ void pause() { __nanosleep(200); }

__global__ void spin_for(std::int64_t ns, const std::uint32_t* abort_flag) {
  for (const std::int64_t start = now(); now() - start < ns && !is_set(abort_flag);) pause();
}

__global__ void hold(const std::uint32_t* open_flag, std::int64_t cap_ns, const std::uint32_t* abort_flag) {
  for (const std::int64_t start = now(); !is_set(open_flag) && now() - start < cap_ns && !is_set(abort_flag);) pause();
}

/// Every launch ends with a check of the last error, because only that shows a refused launch.
struct GpuLauncher {
  template <class Body> static Status launch(const Body& body, std::int64_t count, StreamHandle stream) {
    if (count == 0) return cudaSuccess;
    constexpr std::int64_t block = 256, most_blocks = 1024;
    const std::int64_t threads = std::min(count, block), blocks = std::min((count + block - 1) / block, most_blocks);
    run<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, static_cast<cudaStream_t>(stream)>>>(body,
                                                                                                                 count);
    return cudaGetLastError();
  }

  static Status spin(std::int64_t ns, std::int64_t cap_ns, const std::uint32_t* abort_flag, StreamHandle stream) {
    spin_for<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(std::min(ns, cap_ns), abort_flag);
    return cudaGetLastError();
  }

  static Status gate(const std::uint32_t* open_flag, std::int64_t cap_ns, const std::uint32_t* abort_flag,
                     StreamHandle stream) {
    hold<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(open_flag, cap_ns, abort_flag);
    return cudaGetLastError();
  }

  static Status warm_up() {
    const void* const kernels[] = {reinterpret_cast<const void*>(&spin_for), reinterpret_cast<const void*>(&hold),
#define SHARDPROOF_KERNEL(name, Body) reinterpret_cast<const void*>(&run<bodies::Body>),
                                   SHARDPROOF_CUDA_KERNELS(SHARDPROOF_KERNEL)
#undef SHARDPROOF_KERNEL
#define SHARDPROOF_KERNEL(name, Body)                                                                                  \
  reinterpret_cast<const void*>(&run<bodies::Body<float>>), reinterpret_cast<const void*>(&run<bodies::Body<double>>), \
      reinterpret_cast<const void*>(&run<bodies::Body<bodies::Bf16>>),                                                 \
      reinterpret_cast<const void*>(&run<bodies::Body<bodies::F16>>),
                                       SHARDPROOF_CUDA_FLOAT_KERNELS(SHARDPROOF_KERNEL)
#undef SHARDPROOF_KERNEL
#define SHARDPROOF_KERNEL(name, Body) \
  reinterpret_cast<const void*>(&run<bodies::Body<float>>), reinterpret_cast<const void*>(&run<bodies::Body<double>>),
                                           SHARDPROOF_CUDA_REAL_KERNELS(SHARDPROOF_KERNEL)
#undef SHARDPROOF_KERNEL
    };
    for (const void* kernel : kernels) {
      cudaFuncAttributes attributes;
      if (const cudaError_t status = cudaFuncGetAttributes(&attributes, kernel); status != cudaSuccess) return status;
    }
    return cudaSuccess;
  }
};

}  // namespace

const KernelTable& gpu_kernel_table() {
  static constexpr KernelTable table = kernel_table<GpuLauncher>();
  return table;
}

}  // namespace shardproof::device::cuda
