// The CUDA backend's kernels, and cuBLAS's products, on the host. They run the same bodies as a GPU, in loops, at once.
// A replacement for a device that runs work later or elsewhere has its own launcher, and calls these functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/device/cuda/kernels/table.hpp"
#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

struct HostLauncher {
  template <class Body> static Status launch(const Body& body, std::int64_t count, StreamHandle) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return 0;
  }
  // Times here are not real.
  static Status spin(std::int64_t, std::int64_t, const std::uint32_t*, StreamHandle) { return 0; }
  static Status gate(const std::uint32_t*, std::int64_t, const std::uint32_t*, StreamHandle) { return 0; }
  static Status warm_up() { return 0; }
};

inline constexpr KernelTable cpu_kernel_table = kernel_table<HostLauncher>();

/// A matrix product as CublasTable's functions define it. Sums run in ascending order.
template <class T>
void multiply_on_host(bool transpose_a, bool transpose_b, int m, int n, int inner, const T* a, const T* b,
                      bodies::Computed<T> beta, T* c) {
  using C = bodies::Computed<T>;
  using bodies::loaded;
  const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(n),
             length = static_cast<std::size_t>(inner);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      C total{0};
      for (std::size_t k = 0; k < length; ++k) {
        total += loaded(a[transpose_a ? k * rows + i : i * length + k]) *
                 loaded(b[transpose_b ? j * length + k : k * columns + j]);
      }
      T& element = c[i * columns + j];
      element = bodies::rounded<T>(beta == C{0} ? total : beta * loaded(element) + total);
    }
  }
}

/// The object behind the host's BlasHandle.
struct HostBlas {
  StreamHandle stream = nullptr;
};

template <class T>
Status host_gemm(BlasHandle, bool transpose_a, bool transpose_b, int m, int n, int inner, const T* a, const T* b,
                 bodies::Computed<T> beta, T* c) {
  multiply_on_host(transpose_a, transpose_b, m, n, inner, a, b, beta, c);
  return 0;
}

inline constexpr CublasTable cpu_cublas_table{
    .create = [](BlasHandle* handle) -> Status {
      *handle = new HostBlas;
      return 0;
    },
    .destroy = [](BlasHandle handle) -> Status {
      delete static_cast<HostBlas*>(handle);
      return 0;
    },
    .set_stream = [](BlasHandle handle, StreamHandle stream) -> Status {
      static_cast<HostBlas*>(handle)->stream = stream;
      return 0;
    },
    .sgemm = host_gemm<float>,
    .dgemm = host_gemm<double>,
    .bf16gemm = host_gemm<bodies::Bf16>,
    .f16gemm = host_gemm<bodies::F16>,
    .error_name = [](Status) -> const char* { return "CUBLAS_STATUS_NOT_SUPPORTED"; },
};

}  // namespace shardproof::device::cuda
