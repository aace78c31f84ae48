// The table of the CUDA backend's own kernels. A body defines what a kernel computes. A launcher runs it: on a GPU as a
// grid of threads (kernels.cu), in tests as a loop on the host.
#pragma once

#include <cstdint>
#include <type_traits>

#include "harness/device/cuda/kernels/element_bodies.hpp"
#include "harness/device/cuda/kernels/loss_bodies.hpp"
#include "harness/device/cuda/kernels/optimizer_bodies.hpp"
#include "harness/device/cuda/kernels/row_bodies.hpp"
#include "harness/device/cuda/kernels/sequence_bodies.hpp"
#include "harness/device/cuda/vendor.hpp"

// All kernels, as X(member of the table, its body), in three lists:
// - kernels for every dtype
// - templates for f32, f64, bf16 and f16
// - templates for f32 and f64 only
#define SHARDPROOF_CUDA_KERNELS(X) \
  X(copy, Copy)                    \
  X(fill, Fill)                    \
  X(scale, Scale)                  \
  X(divide, Divide)                \
  X(accumulate, Accumulate)        \
  X(check_indices, CheckIndices)

#define SHARDPROOF_CUDA_FLOAT_KERNELS(X)                 \
  X(relu, Relu)                                          \
  X(relu_backward, ReluBackward)                         \
  X(scale_by, ScaleBy)                                   \
  X(add_row, AddRow)                                     \
  X(sum_rows, SumRows)                                   \
  X(layer_norm, LayerNorm)                               \
  X(layer_norm_backward_in, LayerNormBackwardIn)         \
  X(layer_norm_backward_weight, LayerNormBackwardWeight) \
  X(embedding, Embedding)                                \
  X(embedding_backward, EmbeddingBackward)               \
  X(attention, Attention)                                \
  X(attention_backward_query, AttentionBackwardQuery)    \
  X(attention_backward_key, AttentionBackwardKey)        \
  X(attention_backward_value, AttentionBackwardValue)    \
  X(sum, Sum)                                            \
  X(sum_of_squares, SumOfSquares)                        \
  X(dot, Dot)                                            \
  X(dot_rows, DotRows)                                   \
  X(cross_entropy, CrossEntropy)                         \
  X(cross_entropy_backward, CrossEntropyBackward)

#define SHARDPROOF_CUDA_REAL_KERNELS(X) \
  X(power_sum, PowerSum)                \
  X(power_root, PowerRoot)              \
  X(clip, Clip)                         \
  X(sgd, Sgd)                           \
  X(adam, Adam)

namespace shardproof::device::cuda {

/// Runs a body for each i below `count` on the stream. Launches nothing for a count of 0. Returns CUDA's status.
template <class Body> using Launch = Status (*)(const Body& body, std::int64_t count, StreamHandle stream);

template <template <class> class Body> struct RealLaunch {
  Launch<Body<float>> f32;
  Launch<Body<double>> f64;

  /// T is float or double.
  template <class T> Launch<Body<T>> of() const {
    if constexpr (std::is_same_v<T, float>) return f32;
    else return f64;
  }
};

template <template <class> class Body> struct FloatLaunch {
  Launch<Body<float>> f32;
  Launch<Body<double>> f64;
  Launch<Body<bodies::Bf16>> bf16;
  Launch<Body<bodies::F16>> f16;

  /// T is float, double, Bf16 or F16.
  template <class T> Launch<Body<T>> of() const {
    if constexpr (std::is_same_v<T, float>) return f32;
    else if constexpr (std::is_same_v<T, double>) return f64;
    else if constexpr (std::is_same_v<T, bodies::Bf16>) return bf16;
    else return f16;
  }
};

struct KernelTable {
#define SHARDPROOF_MEMBER(name, Body) Launch<bodies::Body> name;
  SHARDPROOF_CUDA_KERNELS(SHARDPROOF_MEMBER)
#undef SHARDPROOF_MEMBER
#define SHARDPROOF_MEMBER(name, Body) FloatLaunch<bodies::Body> name;
  SHARDPROOF_CUDA_FLOAT_KERNELS(SHARDPROOF_MEMBER)
#undef SHARDPROOF_MEMBER
#define SHARDPROOF_MEMBER(name, Body) RealLaunch<bodies::Body> name;
  SHARDPROOF_CUDA_REAL_KERNELS(SHARDPROOF_MEMBER)
#undef SHARDPROOF_MEMBER

  // Both kernels below occupy one thread of the stream. Flags are words that the host sets and the device sees, by the
  // device's address (CudaTable::host_allocate). The cap ends the kernel in any case, so that no failed test leaves a
  // device busy.
  /// Spins for `ns` of real time, or until the cap is over or the word `abort_flag` is not 0.
  Status (*spin)(std::int64_t ns, std::int64_t cap_ns, const std::uint32_t* abort_flag, StreamHandle stream);
  /// Waits until the word `open_flag` is not 0, the cap is over, or the word `abort_flag` is not 0.
  Status (*gate)(const std::uint32_t* open_flag, std::int64_t cap_ns, const std::uint32_t* abort_flag,
                 StreamHandle stream);

  /// Loads every kernel onto the current device. CUDA may otherwise load a kernel at its first launch, and wait for all
  /// other kernels to end. While a gate is closed, that wait would never end.
  Status (*warm_up)();
};

/// The table whose kernels `Launcher` launches: a struct with the static functions `launch<Body>`, `spin`, `gate` and
/// `warm_up`.
template <class Launcher> constexpr KernelTable kernel_table() {
  return {
#define SHARDPROOF_MEMBER(name, Body) .name = &Launcher::template launch<bodies::Body>,
      SHARDPROOF_CUDA_KERNELS(SHARDPROOF_MEMBER)
#undef SHARDPROOF_MEMBER
#define SHARDPROOF_MEMBER(name, Body)                                                                         \
  .name = {&Launcher::template launch<bodies::Body<float>>, &Launcher::template launch<bodies::Body<double>>, \
           &Launcher::template launch<bodies::Body<bodies::Bf16>>,                                            \
           &Launcher::template launch<bodies::Body<bodies::F16>>},
          SHARDPROOF_CUDA_FLOAT_KERNELS(SHARDPROOF_MEMBER)
#undef SHARDPROOF_MEMBER
#define SHARDPROOF_MEMBER(name, Body) \
  .name = {&Launcher::template launch<bodies::Body<float>>, &Launcher::template launch<bodies::Body<double>>},
              SHARDPROOF_CUDA_REAL_KERNELS(SHARDPROOF_MEMBER)
#undef SHARDPROOF_MEMBER
                  .spin = &Launcher::spin,
      .gate = &Launcher::gate,
      .warm_up = &Launcher::warm_up,
  };
}

/// The size of all tables together. The code that fills the tables and the code that calls them must have the same
/// size.
inline constexpr std::uint32_t vendor_table_bytes = sizeof(VendorTables) + sizeof(CudaTable) + sizeof(CublasTable) +
                                                    sizeof(NcclTable) + sizeof(KernelTable) + sizeof(ActivityTable);

}  // namespace shardproof::device::cuda
