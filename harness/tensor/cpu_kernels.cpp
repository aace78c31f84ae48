#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/tensor/elements.hpp"
#include "harness/tensor/kernels.hpp"

namespace shardproof {
namespace {

using elements::convert;

std::string describe(const Tensor& tensor) { return fmt::format("{} {}", to_string(tensor.dtype()), to_string(tensor.shape())); }

template <class... Tensors> [[noreturn]] void reject(const char* kernel, const char* rule, const Tensors&... operands) {
  std::string text = fmt::format("{}: {}; given", kernel, rule);
  ((text += " " + (operands.defined() ? describe(operands) : "an undefined tensor") + ","), ...);
  text.pop_back();
  throw std::invalid_argument(text);
}

template <class... Tensors> void require(bool holds, const char* kernel, const char* rule, const Tensors&... operands) {
  if (!holds) reject(kernel, rule, operands...);
}

/// Calls `body` with the element type of operands that must all be f32 or all f64.
template <class Body, class... Tensors> void visit_real(const char* kernel, Body&& body, const Tensor& first, const Tensors&... others) {
  require(first.defined() && (others.defined() && ...), kernel, "operands must be defined", first, others...);
  require(((first.dtype() == others.dtype()) && ...), kernel, "operands must have one dtype", first, others...);
  if (first.dtype() == DType::f32) return body(elements::Type<float>{});
  if (first.dtype() == DType::f64) return body(elements::Type<double>{});
  reject(kernel, "computes in f32 and f64 only", first, others...);
}

/// Calls `body` with the element types of two tensors of as many elements, whatever their dtypes.
template <class Body> void visit_pair(const char* kernel, const Tensor& out, const Tensor& in, Body&& body) {
  require(out.defined() && in.defined(), kernel, "operands must be defined", out, in);
  require(out.numel() == in.numel(), kernel, "operands must have as many elements", out, in);
  elements::visit(out.dtype(), [&](auto to) { elements::visit(in.dtype(), [&](auto from) { body(to, from); }); });
}

/// In what arithmetic on two element types takes place before one rounding to the result's: bf16 and f16 in float, integers in double when
/// they meet a real number.
template <class A, class B>
using Compute = std::conditional_t<std::is_same_v<A, double> || std::is_same_v<B, double>, double,
                                   std::conditional_t<std::is_integral_v<A> && std::is_integral_v<B>, double, float>>;

template <class Operation> void map(const char* kernel, const Tensor& out, const Tensor& in, double operand, Operation operation) {
  visit_pair(kernel, out, in, [&](auto to, auto from) {
    using To = typename decltype(to)::type;
    using From = typename decltype(from)::type;
    using C = Compute<To, From>;
    const auto source = in.values<From>();
    const auto target = out.values<To>();
    const C value = static_cast<C>(operand);
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = convert<To>(operation(convert<C>(source[i]), value));
  });
}

struct Rows {
  std::size_t count, length;
};

/// A matrix [m, n].
Rows rows_of(const char* kernel, const Tensor& matrix) {
  require(matrix.shape().size() == 2, kernel, "needs a matrix", matrix);
  return {static_cast<std::size_t>(matrix.shape()[0]), static_cast<std::size_t>(matrix.shape()[1])};
}

/// A matrix [m, n] and a row [n] that goes with it.
Rows rows_of(const char* kernel, const Tensor& matrix, const Tensor& row) {
  const bool fit = matrix.shape().size() == 2 && row.shape().size() == 1 && matrix.shape()[1] == row.shape()[0];
  require(fit, kernel, "needs a matrix [m, n] and a row [n]", matrix, row);
  return rows_of(kernel, matrix);
}

/// torch.lerp: from whichever end is nearer, so that a weight of one gives `end` exactly.
template <class T> T lerp(T start, T end, T weight) {
  return weight < T{0.5} ? start + weight * (end - start) : end - (end - start) * (T{1} - weight);
}

class CpuKernels final : public Kernels {
 public:
  void copy(NativeStream, const Tensor& out, const Tensor& in) const override {
    visit_pair("copy", out, in, [&](auto to, auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      std::ranges::transform(in.values<From>(), out.values<To>().begin(), convert<To, From>);
    });
  }

  void fill(NativeStream, const Tensor& out, double value) const override {
    require(out.defined(), "fill", "the operand must be defined", out);
    elements::visit(out.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      std::ranges::fill(out.values<T>(), convert<T>(value));
    });
  }

  void scale(NativeStream, const Tensor& out, const Tensor& in, double factor) const override {
    map("scale", out, in, factor, [](auto element, auto by) { return element * by; });
  }

  void divide(NativeStream, const Tensor& out, const Tensor& in, double divisor) const override {
    map("divide", out, in, divisor, [](auto element, auto by) { return element / by; });
  }

  void accumulate(NativeStream, const Tensor& out, const Tensor& in) const override {
    visit_pair("accumulate", out, in, [&](auto to, auto from) {
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

  void matmul(NativeStream, const Tensor& out, const Tensor& a, const Tensor& b, Matmul how) const override {
    const Rows shape = rows_of("matmul", out), left = rows_of("matmul", a), right = rows_of("matmul", b);
    const std::size_t inner = how.transpose_a ? left.count : left.length;
    const bool fit = (how.transpose_a ? left.length : left.count) == shape.count &&
                     (how.transpose_b ? right.count : right.length) == shape.length &&
                     (how.transpose_b ? right.length : right.count) == inner;
    require(fit, "matmul", "out must be [m, n] = [m, k] times [k, n] after transposition", out, a, b);
    visit_real(
        "matmul",
        [&](auto type) {
          using T = typename decltype(type)::type;
          const T* const x = a.values<T>().data();
          const T* const y = b.values<T>().data();
          T* const z = out.values<T>().data();
          const std::size_t x_row = how.transpose_a ? 1 : left.length, x_step = how.transpose_a ? left.length : 1;
          const std::size_t y_column = how.transpose_b ? right.length : 1, y_step = how.transpose_b ? 1 : right.length;
          for (std::size_t i = 0; i < shape.count; ++i) {
            for (std::size_t j = 0; j < shape.length; ++j) {
              T total{0};
              for (std::size_t k = 0; k < inner; ++k) total += x[i * x_row + k * x_step] * y[k * y_step + j * y_column];
              T& element = z[i * shape.length + j];
              element = how.add ? element + total : total;
            }
          }
        },
        out, a, b);
  }

  void add_row(NativeStream, const Tensor& out, const Tensor& row) const override {
    const Rows shape = rows_of("add_row", out, row);
    visit_real(
        "add_row",
        [&](auto type) {
          using T = typename decltype(type)::type;
          const auto target = out.values<T>(), addend = row.values<T>();
          for (std::size_t i = 0; i < target.size(); ++i) target[i] += addend[i % shape.length];
        },
        out, row);
  }

  void sum_rows(NativeStream, const Tensor& out, const Tensor& in, bool add) const override {
    const Rows shape = rows_of("sum_rows", in, out);
    visit_real(
        "sum_rows",
        [&](auto type) {
          using T = typename decltype(type)::type;
          const auto target = out.values<T>(), source = in.values<T>();
          for (std::size_t j = 0; j < shape.length; ++j) {
            T total{0};
            for (std::size_t i = 0; i < shape.count; ++i) total += source[i * shape.length + j];
            target[j] = add ? target[j] + total : total;
          }
        },
        out, in);
  }

  void relu(NativeStream, const Tensor& out, const Tensor& in) const override {
    require(out.numel() == in.numel(), "relu", "operands must have as many elements", out, in);
    visit_real(
        "relu",
        [&](auto type) {
          using T = typename decltype(type)::type;
      // NaN is not <= 0 and passes through, as in PyTorch.
          std::ranges::transform(in.values<T>(), out.values<T>().begin(), [](T x) { return x <= T{0} ? T{0} : x; });
        },
        out, in);
  }

  void relu_backward(NativeStream, const Tensor& grad_in, const Tensor& grad_out, const Tensor& out) const override {
    const bool fit = grad_in.numel() == out.numel() && grad_out.numel() == out.numel();
    require(fit, "relu_backward", "operands must have as many elements", grad_in, grad_out, out);
    visit_real(
        "relu_backward",
        [&](auto type) {
          using T = typename decltype(type)::type;
          const auto target = grad_in.values<T>(), incoming = grad_out.values<T>(), result = out.values<T>();
          for (std::size_t i = 0; i < target.size(); ++i) target[i] = result[i] <= T{0} ? T{0} : incoming[i];
        },
        grad_in, grad_out, out);
  }

  void sum(NativeStream, const Tensor& out, const Tensor& in) const override {
    reduce("sum", out, in, [](auto x) { return x; });
  }

  void sum_of_squares(NativeStream, const Tensor& out, const Tensor& in) const override {
    reduce("sum_of_squares", out, in, [](auto x) { return x * x; });
  }

  void dot_rows(NativeStream, const Tensor& out, const Tensor& in, const Tensor& row) const override {
    const Rows shape = rows_of("dot_rows", in, row);
    require(out.numel() == 1, "dot_rows", "out must have one element", out);
    visit_real(
        "dot_rows",
        [&](auto type) {
          using T = typename decltype(type)::type;
          const auto source = in.values<T>(), weight = row.values<T>();
          T total{0};
          for (std::size_t i = 0; i < source.size(); ++i) total += source[i] * weight[i % shape.length];
          out.values<T>()[0] = total;
        },
        out, in, row);
  }

  void sgd(NativeStream, const Tensor& parameter, const Tensor& gradient, double rate) const override {
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

  // torch.optim.AdamW, `_single_tensor_adamw`: each line below is one of its tensor operations, with its scalars computed in double and
  // rounded to the tensors' type where PyTorch rounds them.
  void adamw(NativeStream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1, const Tensor& moment2,
             const Adam& how) const override {
    const bool fit = gradient.numel() == parameter.numel() && moment1.numel() == parameter.numel() && moment2.numel() == parameter.numel();
    require(fit, "adamw", "operands must have as many elements", parameter, gradient, moment1, moment2);
    if (how.step < 1) throw std::invalid_argument(fmt::format("adamw: step {} given; the first step is 1", how.step));
    const double steps = static_cast<double>(how.step);
    const double step_size = how.rate / (1 - std::pow(how.beta1, steps));
    const double correction2_root = std::sqrt(1 - std::pow(how.beta2, steps));
    visit_real(
        "adamw",
        [&](auto type) {
          using T = typename decltype(type)::type;
          const auto value = parameter.values<T>(), slope = gradient.values<T>(), first = moment1.values<T>(), second = moment2.values<T>();
          const T decay = static_cast<T>(1 - how.rate * how.weight_decay), weight = static_cast<T>(1 - how.beta1);
          const T keep = static_cast<T>(how.beta2), add = static_cast<T>(1 - how.beta2);
          const T root = static_cast<T>(correction2_root), epsilon = static_cast<T>(how.epsilon), step = static_cast<T>(-step_size);
          for (std::size_t i = 0; i < value.size(); ++i) {
            if (how.weight_decay != 0) value[i] *= decay;
            first[i] = lerp(first[i], slope[i], weight);
            second[i] = second[i] * keep;
            second[i] = second[i] + add * slope[i] * slope[i];
            const T denominator = std::sqrt(second[i]) / root + epsilon;
            value[i] = value[i] + step * first[i] / denominator;
          }
        },
        parameter, gradient, moment1, moment2);
  }

  void spin(NativeStream, std::int64_t) const override {}

 private:
  template <class Term> static void reduce(const char* kernel, const Tensor& out, const Tensor& in, Term term) {
    require(out.numel() == 1, kernel, "out must have one element", out);
    visit_real(
        kernel,
        [&](auto type) {
          using T = typename decltype(type)::type;
          T total{0};
          for (const T value : in.values<T>()) total += term(value);
          out.values<T>()[0] = total;
        },
        out, in);
  }
};

}  // namespace

const Kernels& cpu_kernels() {
  static const CpuKernels kernels;
  return kernels;
}

}  // namespace shardproof
