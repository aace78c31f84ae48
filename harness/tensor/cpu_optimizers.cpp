#include <cmath>
#include <cstdint>

#include "harness/tensor/adam_coefficients.hpp"
#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::tensor::cpu {
namespace {

/// torch.lerp: starts from the nearer end, so that a weight of one gives `end` exactly.
template <class T> T lerp(T start, T end, T weight) {
  return weight < T{0.5} ? std::fma(weight, end - start, start) : std::fma(weight - T{1}, end - start, end);
}

enum class Decay : std::uint8_t { into_gradient, off_parameter };

// torch.optim's `_single_tensor_adam` and `_single_tensor_adamw`: each line below is one of their tensor operations,
// with scalars of harness/tensor/adam_coefficients.hpp. A scaled sum is rounded once: PyTorch 2.15 was observed to do
// so on CPUs that have an instruction for that.
void update(const char* kernel, Decay decay, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
            const Tensor& moment2, const Kernels::Adam& how) {
  operands::adam(kernel, parameter, gradient, moment1, moment2, how);
  operands::visit_real(parameter.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto value = parameter.values<T>(), slopes = gradient.values<T>(), first = moment1.values<T>(),
               second = moment2.values<T>();
    const AdamCoefficients<T> c(how);
    for (std::size_t i = 0; i < value.size(); ++i) {
      T slope = slopes[i];
      if (c.decays && decay == Decay::into_gradient) slope = std::fma(c.added, value[i], slope);
      if (c.decays && decay == Decay::off_parameter) value[i] *= c.kept;
      first[i] = lerp(first[i], slope, c.weight1);
      second[i] = second[i] * c.keep2;
      second[i] = std::fma(c.add2 * slope, slope, second[i]);
      const T denominator = std::sqrt(second[i]) / c.root + c.epsilon;
      value[i] = value[i] + c.step * first[i] / denominator;
    }
  });
}

}  // namespace

void CpuKernels::sgd(NativeStream, const Tensor& parameter, const Tensor& gradient, double rate) const {
  operands::sgd(parameter, gradient);
  operands::visit_real(parameter.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto value = parameter.values<T>(), slope = gradient.values<T>();
    const T step = static_cast<T>(-rate);
    for (std::size_t i = 0; i < value.size(); ++i) value[i] = std::fma(step, slope[i], value[i]);
  });
}

void CpuKernels::adam(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
                      const Tensor& moment2, const Adam& how) const {
  update("adam", Decay::into_gradient, parameter, gradient, moment1, moment2, how);
}

void CpuKernels::adamw(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
                       const Tensor& moment2, const Adam& how) const {
  update("adamw", Decay::off_parameter, parameter, gradient, moment1, moment2, how);
}

}  // namespace shardproof::tensor::cpu
