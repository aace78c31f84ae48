// The scalars of one step of Adam, as PyTorch's single-tensor implementations compute them. They are computed in
// double, and rounded to the tensors' type where a tensor operation takes them. Every implementation of the kernel
// computes them on the host, with this class.
#pragma once

#include <cmath>

#include "harness/tensor/kernels.hpp"

namespace shardproof::tensor {

template <class T> struct AdamCoefficients {
  explicit AdamCoefficients(const Kernels::Adam& how)
      : decays(how.weight_decay != 0),
        added(static_cast<T>(how.weight_decay)),
        kept(static_cast<T>(1 - how.rate * how.weight_decay)),
        weight1(static_cast<T>(1 - how.beta1)),
        keep2(static_cast<T>(how.beta2)),
        add2(static_cast<T>(1 - how.beta2)),
        root(static_cast<T>(std::sqrt(1 - std::pow(how.beta2, static_cast<double>(how.step))))),
        epsilon(static_cast<T>(how.epsilon)),
        step(static_cast<T>(-(how.rate / (1 - std::pow(how.beta1, static_cast<double>(how.step)))))) {}

  bool decays;
  T added;  ///< of the parameter, to the gradient: Adam
  T kept;  ///< of the parameter: AdamW
  T weight1;  ///< of the gradient in the first moment
  T keep2, add2;  ///< of the second moment, and of the gradient's square in it
  T root, epsilon;  ///< the denominator is sqrt(moment2) / root + epsilon
  T step;
};

}  // namespace shardproof::tensor
