// Bodies of the optimizers' kernels: i is an element of the parameter.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/device/cuda/kernels/portable.hpp"
#include "harness/tensor/adam_coefficients.hpp"

namespace shardproof::device::cuda::bodies {

template <class T> struct Sgd {
  T* parameter;
  const T* gradient;
  T step;  ///< the rate, negative

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    parameter[i] = std::fma(step, gradient[i], parameter[i]);
  }
};

/// Adam, and AdamW if the decay is taken off the parameter instead of added to the gradient.
template <class T> struct Adam {
  T* parameter;
  const T* gradient;
  T* moment1;
  T* moment2;
  tensor::AdamCoefficients<T> coefficients;
  bool decay_off_parameter;

  // Each line is one tensor operation of PyTorch, which rounds a scaled sum once.
  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const tensor::AdamCoefficients<T>& c = coefficients;
    T slope = gradient[i], value = parameter[i];
    if (c.decays && !decay_off_parameter) slope = std::fma(c.added, value, slope);
    if (c.decays && decay_off_parameter) value = value * c.kept;
    const T first = lerp(moment1[i], slope, c.weight1);
    T second = moment2[i] * c.keep2;
    second = std::fma(c.add2 * slope, slope, second);
    const T denominator = std::sqrt(second) / c.root + c.epsilon;
    moment1[i] = first;
    moment2[i] = second;
    parameter[i] = value + c.step * first / denominator;
  }

 private:
  /// torch.lerp: starts from the nearer end, so that a weight of one gives `end` exactly.
  SHARDPROOF_HOST_DEVICE static T lerp(T start, T end, T weight) {
    return weight < T{0.5} ? std::fma(weight, end - start, start) : std::fma(weight - T{1}, end - start, end);
  }
};

}  // namespace shardproof::device::cuda::bodies
