// The basis of the kernel bodies, so that one source compiles for GPU and CPU: a mark on functions, and the few
// operations that the two spell differently.
//
// A body is a struct of plain arguments with `operator()(i)`, which computes element, row or result i and nothing else.
// So every order of the i gives the same bits, and no body needs memory besides its operands.
//
// Arithmetic is that of the host kernels (harness/tensor/cpu_*.cpp), operation by operation, with ascending sums. nvcc
// needs -fmad=false for that; other compilers need -ffp-contract=off. nvcc also needs --expt-relaxed-constexpr, for
// constexpr functions of the standard library and the protocol.
//
// The bits are the host's, too, with two exceptions:
// - A NaN has the hardware's own sign and payload.
// - On a GPU, exp, log and pow are CUDA's, which may differ from the host's in the last place.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SHARDPROOF_HOST_DEVICE __host__ __device__
#else
#define SHARDPROOF_HOST_DEVICE
#endif

namespace shardproof::device::cuda::bodies {

/// Sets a word that is 0. Returns false if another thread was first.
SHARDPROOF_HOST_DEVICE inline bool claim(std::uint32_t* word) {
#ifdef __CUDA_ARCH__
  return atomicCAS(word, 0u, 1u) == 0;
#else
  std::uint32_t free = 0;
  return __atomic_compare_exchange_n(word, &free, 1u, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
#endif
}

/// Sets a word after all earlier writes, as the host and other devices see it.
SHARDPROOF_HOST_DEVICE inline void publish(std::uint32_t* word, std::uint32_t value) {
#ifdef __CUDA_ARCH__
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(word) = value;
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

}  // namespace shardproof::device::cuda::bodies
