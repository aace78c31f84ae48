// What the bodies of kernels stand on, so that one source is compiled for GPU and CPU: a mark on functions, and the few operations that the
// two spell differently. A body is a struct of plain arguments with `operator()(i)`, which computes element, row or result i and nothing
// else: every order of the i gives the same bits, and no body needs memory beside its operands. Arithmetic is that of the kernels on the
// host (harness/tensor/cpu_*.cpp), operation by operation, sums ascending; nvcc must be told -fmad=false (and --expt-relaxed-constexpr, for
// what the standard library and the protocol call constexpr), other compilers -ffp-contract=off. The bits are the host's too, except that a
// NaN's sign and payload are the hardware's own, and that exp, log and pow are CUDA's on a GPU, which may differ from the host's in the
// last place.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SHARDPROOF_HOST_DEVICE __host__ __device__
#else
#define SHARDPROOF_HOST_DEVICE
#endif

namespace shardproof::cuda::bodies {

/// Sets a word that is 0; false when somebody else was first.
SHARDPROOF_HOST_DEVICE inline bool claim(std::uint32_t* word) {
#ifdef __CUDA_ARCH__
  return atomicCAS(word, 0u, 1u) == 0;
#else
  std::uint32_t free = 0;
  return __atomic_compare_exchange_n(word, &free, 1u, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
#endif
}

/// Sets a word after everything that was written before, as the host and other devices see it.
SHARDPROOF_HOST_DEVICE inline void publish(std::uint32_t* word, std::uint32_t value) {
#ifdef __CUDA_ARCH__
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(word) = value;
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

}  // namespace shardproof::cuda::bodies
