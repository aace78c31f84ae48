#include <algorithm>
#include <type_traits>

#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::tensor::cpu {
namespace {

using elements::convert;

/// The type for arithmetic on two element types, before one rounding to the result's type: float for bf16 and f16. Two
/// integer types compute in double when they meet a real number.
template <class A, class B>
using Compute = std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double>, double,
                                   std::conditional_t<std::is_integral_v<A> && std::is_integral_v<B>, double, float>>;

/// Calls `body` with the element types of two tensors.
template <class Body> void visit_pair(const Tensor& out, const Tensor& in, Body&& body) {
  elements::visit(out.dtype(), [&](auto to) { elements::visit(in.dtype(), [&](auto from) { body(to, from); }); });
}

template <class Operation> void map(const char* kernel, const Tensor& out, const Tensor& in, double operand,
                                    Operation operation) {
  operands::pair(kernel, out, in);
  visit_pair(out, in, [&](auto to, auto from) {
    using To = typename decltype(to)::type;
    using From = typename decltype(from)::type;
    using C = Compute<To, From>;
    const auto source = in.values<From>();
    const auto target = out.values<To>();
    const C value = static_cast<C>(operand);
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = convert<To>(operation(convert<C>(source[i]), value));
  });
}

}  // namespace

void CpuKernels::copy(NativeStream, const Tensor& out, const Tensor& in) const {
  operands::pair("copy", out, in);
  visit_pair(out, in, [&](auto to, auto from) {
    using To = typename decltype(to)::type;
    using From = typename decltype(from)::type;
    if constexpr (std::is_same_v<To, From>) std::ranges::copy(in.values<From>(), out.values<To>().begin());
    else
      std::ranges::transform(in.values<From>(), out.values<To>().begin(),
                             [](From value) { return convert<To>(value); });
  });
}

void CpuKernels::fill(NativeStream, const Tensor& out, double value) const {
  operands::fill(out);
  elements::visit(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::ranges::fill(out.values<T>(), convert<T>(value));
  });
}

void CpuKernels::scale(NativeStream, const Tensor& out, const Tensor& in, double factor) const {
  map("scale", out, in, factor, [](auto element, auto by) { return element * by; });
}

void CpuKernels::divide(NativeStream, const Tensor& out, const Tensor& in, double divisor) const {
  map("divide", out, in, divisor, [](auto element, auto by) { return element / by; });
}

void CpuKernels::accumulate(NativeStream, const Tensor& out, const Tensor& in) const {
  operands::pair("accumulate", out, in);
  visit_pair(out, in, [&](auto to, auto from) {
    using To = typename decltype(to)::type;
    using From = typename decltype(from)::type;
    const auto source = in.values<From>();
    const auto target = out.values<To>();
    for (std::size_t i = 0; i < target.size(); ++i) {
      if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
        target[i] = static_cast<To>(static_cast<std::uint64_t>(target[i]) + static_cast<std::uint64_t>(source[i]));
      } else {
        using C = Compute<To, From>;
        target[i] = convert<To>(convert<C>(target[i]) + convert<C>(source[i]));
      }
    }
  });
}

void CpuKernels::relu(NativeStream, const Tensor& out, const Tensor& in) const {
  operands::relu(out, in);
  const Tensor source = widened(in), result = widened(out);
  operands::visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    // NaN is not <= 0 and passes through, as in PyTorch.
    std::ranges::transform(source.values<T>(), result.values<T>().begin(), [](T x) { return x <= T{0} ? T{0} : x; });
  });
  round_to(out, result);
}

void CpuKernels::relu_backward(NativeStream, const Tensor& grad_in, const Tensor& grad_out, const Tensor& out) const {
  operands::relu_backward(grad_in, grad_out, out);
  const Tensor above = widened(grad_out), activation = widened(out), below = widened(grad_in);
  operands::visit_real(grad_in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto target = below.values<T>(), incoming = above.values<T>(), result = activation.values<T>();
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = result[i] <= T{0} ? T{0} : incoming[i];
  });
  round_to(grad_in, below);
}

void CpuKernels::scale_by(NativeStream, const Tensor& out, const Tensor& in, const Tensor& factor) const {
  operands::scale_by(out, in, factor);
  const Tensor source = widened(in), scalar = widened(factor), result = widened(out);
  operands::visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T by = scalar.values<T>()[0];
    std::ranges::transform(source.values<T>(), result.values<T>().begin(), [by](T x) { return x * by; });
  });
  round_to(out, result);
}

}  // namespace shardproof::tensor::cpu
