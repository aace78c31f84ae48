// Bodies of the kernels that treat each element by itself: i is an element of `out`.
#pragma once

#include <cstdint>

#include "harness/device/cuda/kernels/conversions.hpp"
#include "harness/device/cuda/kernels/portable.hpp"

namespace shardproof::device::cuda::bodies {

/// Whether arithmetic on elements of two dtypes is in double before its one rounding, and not in float. Two integer
/// dtypes also compute in double when they meet a real number.
SHARDPROOF_HOST_DEVICE constexpr bool computes_in_double(DType a, DType b) {
  return a == DType::f64 || b == DType::f64 || (is_integer(a) && is_integer(b));
}

struct Copy {
  void* out;
  const void* in;
  DType out_type, in_type;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    if (out_type == in_type) {
      switch (size_of(in_type)) {
        case 8: static_cast<std::uint64_t*>(out)[i] = static_cast<const std::uint64_t*>(in)[i]; return;
        case 4: static_cast<std::uint32_t*>(out)[i] = static_cast<const std::uint32_t*>(in)[i]; return;
        case 2: static_cast<std::uint16_t*>(out)[i] = static_cast<const std::uint16_t*>(in)[i]; return;
        default: static_cast<std::uint8_t*>(out)[i] = static_cast<const std::uint8_t*>(in)[i]; return;
      }
    }
    if (is_integer(in_type)) store_integer(out_type, out, i, load_integer(in_type, in, i));
    else if (in_type == DType::f64) store(out_type, out, i, load<double>(in_type, in, i));
    else store(out_type, out, i, load<float>(in_type, in, i));
  }
};

struct Fill {
  void* out;
  DType type;
  double value;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const { store(type, out, i, value); }
};

struct Scale {
  void* out;
  const void* in;
  DType out_type, in_type;
  double factor;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    if (computes_in_double(out_type, in_type)) store(out_type, out, i, load<double>(in_type, in, i) * factor);
    else store(out_type, out, i, load<float>(in_type, in, i) * static_cast<float>(factor));
  }
};

struct Divide {
  void* out;
  const void* in;
  DType out_type, in_type;
  double divisor;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    if (computes_in_double(out_type, in_type)) store(out_type, out, i, load<double>(in_type, in, i) / divisor);
    else store(out_type, out, i, load<float>(in_type, in, i) / static_cast<float>(divisor));
  }
};

/// Integers among themselves wrap.
struct Accumulate {
  void* out;
  const void* in;
  DType out_type, in_type;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    if (is_integer(out_type) && is_integer(in_type)) {
      const auto a = static_cast<std::uint64_t>(load_integer(out_type, out, i)),
                 b = static_cast<std::uint64_t>(load_integer(in_type, in, i));
      store_integer(out_type, out, i, static_cast<std::int64_t>(a + b));
    } else if (computes_in_double(out_type, in_type)) {
      store(out_type, out, i, load<double>(out_type, out, i) + load<double>(in_type, in, i));
    } else {
      store(out_type, out, i, load<float>(out_type, out, i) + load<float>(in_type, in, i));
    }
  }
};

/// NaN is not <= 0 and passes through.
template <class T> struct Relu {
  T* out;
  const T* in;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = loaded(in[i]) <= 0 ? T{} : in[i]; }
};

template <class T> struct ReluBackward {
  T* grad_in;
  const T* grad_out;
  const T* out;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const { grad_in[i] = loaded(out[i]) <= 0 ? T{} : grad_out[i]; }
};

template <class T> struct ScaleBy {
  T* out;
  const T* in;
  const T* factor;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = rounded<T>(loaded(in[i]) * loaded(*factor)); }
};

}  // namespace shardproof::device::cuda::bodies
