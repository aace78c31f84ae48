#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::cpu {
namespace {

/// torch.lerp: from whichever end is nearer, so that a weight of one gives `end` exactly.
template <class T> T lerp(T start, T end, T weight) {
  return weight < T{0.5} ? start + weight * (end - start) : end - (end - start) * (T{1} - weight);
}

enum class Decay : std::uint8_t { into_gradient, off_parameter };

// torch.optim's `_single_tensor_adam` and `_single_tensor_adamw`: each line below is one of their tensor operations, with its scalars
// computed in double and rounded to the tensors' type where PyTorch rounds them.
void update(const char* kernel, Decay decay, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1, const Tensor& moment2,
            const Kernels::Adam& how) {
  const bool fit = gradient.numel() == parameter.numel() && moment1.numel() == parameter.numel() && moment2.numel() == parameter.numel();
  require(fit, kernel, "operands must have as many elements", parameter, gradient, moment1, moment2);
  if (how.step < 1) throw std::invalid_argument(fmt::format("{}: step {} given; the first step is 1", kernel, how.step));
  const auto steps = static_cast<double>(how.step);
  const double step_size = how.rate / (1 - std::pow(how.beta1, steps));
  const double correction2_root = std::sqrt(1 - std::pow(how.beta2, steps));
  const bool decays = how.weight_decay != 0;
  visit_real(
      kernel,
      [&](auto type) {
        using T = typename decltype(type)::type;
        const auto value = parameter.values<T>(), slopes = gradient.values<T>(), first = moment1.values<T>(), second = moment2.values<T>();
        const T kept = static_cast<T>(1 - how.rate * how.weight_decay), added = static_cast<T>(how.weight_decay);
        const T weight = static_cast<T>(1 - how.beta1), keep = static_cast<T>(how.beta2), add = static_cast<T>(1 - how.beta2);
        const T root = static_cast<T>(correction2_root), epsilon = static_cast<T>(how.epsilon), step = static_cast<T>(-step_size);
        for (std::size_t i = 0; i < value.size(); ++i) {
          T slope = slopes[i];
          if (decays && decay == Decay::into_gradient) slope = slope + added * value[i];
          if (decays && decay == Decay::off_parameter) value[i] *= kept;
          first[i] = lerp(first[i], slope, weight);
          second[i] = second[i] * keep;
          second[i] = second[i] + add * slope * slope;
          const T denominator = std::sqrt(second[i]) / root + epsilon;
          value[i] = value[i] + step * first[i] / denominator;
        }
      },
      parameter, gradient, moment1, moment2);
}

}  // namespace

void CpuKernels::sgd(NativeStream, const Tensor& parameter, const Tensor& gradient, double rate) const {
  require(parameter.numel() == gradient.numel(), "sgd", "operands must have as many elements", parameter, gradient);
  visit_real(
      "sgd",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const auto value = parameter.values<T>(), slope = gradient.values<T>();
        const T step = static_cast<T>(-rate);
        for (std::size_t i = 0; i < value.size(); ++i) value[i] += step * slope[i];
      },
      parameter, gradient);
}

void CpuKernels::adam(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1, const Tensor& moment2,
                      const Adam& how) const {
  update("adam", Decay::into_gradient, parameter, gradient, moment1, moment2, how);
}

void CpuKernels::adamw(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1, const Tensor& moment2,
                       const Adam& how) const {
  update("adamw", Decay::off_parameter, parameter, gradient, moment1, moment2, how);
}

}  // namespace shardproof::cpu
