// One step of an optimizer on an element of a shard.
#pragma once

#include <cmath>

namespace my_engine {

struct Optimizer {
  bool is_adam = false;  // or SGD, which needs the rate alone
  bool decays_gradient = false;  // Adam; AdamW decays the parameter itself
  float rate = 0.5f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0;

  /// `step` counts from 1; the moments are zero before.
  void adam(int step, float& parameter, float gradient, float& first, float& second) const {
    if (decays_gradient) gradient += decay * parameter;
    else parameter -= rate * decay * parameter;
    first = beta1 * first + (1 - beta1) * gradient;
    second = beta2 * second + (1 - beta2) * gradient * gradient;
    const double mean = first / (1 - std::pow(beta1, step)), square = second / (1 - std::pow(beta2, step));
    parameter -= static_cast<float>(rate * mean / (std::sqrt(square) + epsilon));
  }
};

}  // namespace my_engine
