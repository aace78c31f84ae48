#include "harness/tensor/operands.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace shardproof::tensor::operands {
namespace {

std::string described(const Tensor& tensor) {
  return tensor.defined() ? fmt::format("{} {}", to_string(tensor.dtype()), to_string(tensor.shape()))
                          : "an undefined tensor";
}

template <class... Tensors> void require(bool holds, const char* kernel, const char* rule, const Tensors&... operands) {
  if (holds) return;
  std::string text = fmt::format("{}: {}; given", kernel, rule);
  ((text += " " + described(operands) + ","), ...);
  text.pop_back();
  throw std::invalid_argument(text);
}

bool is_real(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }
bool is_low(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

template <class... Tensors> void require_alike(const char* kernel, const Tensor& first, const Tensors&... others) {
  require(first.defined() && (others.defined() && ...), kernel, "operands must be defined", first, others...);
  require(((first.dtype() == others.dtype()) && ...), kernel, "operands must have one dtype", first, others...);
}

/// All f32 or all f64.
template <class... Tensors> void require_real(const char* kernel, const Tensor& first, const Tensors&... others) {
  require_alike(kernel, first, others...);
  require(is_real(first.dtype()), kernel, "computes in f32 and f64 only", first, others...);
}

/// All of one floating dtype.
template <class... Tensors> void require_floats(const char* kernel, const Tensor& first, const Tensors&... others) {
  require_alike(kernel, first, others...);
  require(is_real(first.dtype()) || is_low(first.dtype()), kernel, "takes f64, f32, bf16 and f16 only", first,
          others...);
}

/// The operands of a loss have one floating dtype. The loss has the same dtype, or f32 if that dtype is of low
/// precision.
template <class... Tensors> void require_loss(const char* kernel, const Tensor& out, const Tensor& first,
                                              const Tensors&... others) {
  require(out.defined(), kernel, "operands must be defined", out, first, others...);
  require_floats(kernel, first, others...);
  require(out.dtype() == first.dtype() || (out.dtype() == DType::f32 && is_low(first.dtype())), kernel,
          "out must have its operands' dtype, or f32 if that is bf16 or f16", out, first, others...);
}

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

void require_indices(const char* kernel, const Tensor& indices, std::size_t count) {
  require(indices.defined() && indices.dtype() == DType::i64 && static_cast<std::size_t>(indices.numel()) == count,
          kernel, "needs one index per row, i64", indices);
}

void require_power(const char* kernel, double power) {
  if (!(power > 0)) throw std::invalid_argument(fmt::format("{}: a power of {}; it must be positive", kernel, power));
}

/// Whether a gradient by `operand` fits its target. A gradient without a target always fits.
bool fits(const Kernels::Gradient& gradient, const Tensor& operand) {
  return !gradient.out.defined() ||
         (gradient.out.dtype() == operand.dtype() && gradient.out.numel() == operand.numel());
}

Sequences sequences_of(const char* kernel, const Kernels::Attention& of) {
  const auto& [query, key, value, positions] = of;
  const Rows shape = rows_of(kernel, query);
  require(query.shape() == key.shape() && query.shape() == value.shape(), kernel,
          "query, key and value must have one shape", query, key, value);
  require(positions > 0 && shape.count % static_cast<std::size_t>(positions) == 0, kernel,
          "needs whole sequences of rows", query);
  return {shape.count / static_cast<std::size_t>(positions), static_cast<std::size_t>(positions), shape.length};
}

}  // namespace

void pair(const char* kernel, const Tensor& out, const Tensor& in) {
  require(out.defined() && in.defined(), kernel, "operands must be defined", out, in);
  require(out.numel() == in.numel(), kernel, "operands must have equal numbers of elements", out, in);
}

void fill(const Tensor& out) { require(out.defined(), "fill", "the operand must be defined", out); }

void relu(const Tensor& out, const Tensor& in) {
  require(out.numel() == in.numel(), "relu", "operands must have equal numbers of elements", out, in);
  require_floats("relu", out, in);
}

void relu_backward(const Tensor& grad_in, const Tensor& grad_out, const Tensor& out) {
  const bool fit = grad_in.numel() == out.numel() && grad_out.numel() == out.numel();
  require(fit, "relu_backward", "operands must have equal numbers of elements", grad_in, grad_out, out);
  require_floats("relu_backward", grad_in, grad_out, out);
}

void scale_by(const Tensor& out, const Tensor& in, const Tensor& factor) {
  require(out.numel() == in.numel() && factor.numel() == 1, "scale_by",
          "operands must have equal numbers of elements, and the factor one", out, in, factor);
  require_floats("scale_by", out, in, factor);
}

Product matmul(const Tensor& out, const Tensor& a, const Tensor& b, Kernels::Matmul how) {
  const Rows shape = rows_of("matmul", out), left = rows_of("matmul", a), right = rows_of("matmul", b);
  const std::size_t inner = how.transpose_a ? left.count : left.length;
  const bool fit = (how.transpose_a ? left.length : left.count) == shape.count &&
                   (how.transpose_b ? right.count : right.length) == shape.length &&
                   (how.transpose_b ? right.length : right.count) == inner;
  require(fit, "matmul", "out must be [m, n] = [m, k] times [k, n] after transposition", out, a, b);
  require_floats("matmul", out, a, b);
  return {shape, left, right, inner};
}

Rows add_row(const Tensor& out, const Tensor& row) {
  const Rows shape = rows_of("add_row", out, row);
  require_floats("add_row", out, row);
  return shape;
}

Rows sum_rows(const Tensor& out, const Tensor& in) {
  const Rows shape = rows_of("sum_rows", in, out);
  require_floats("sum_rows", out, in);
  return shape;
}

void reduce(const char* kernel, const Tensor& out, const Tensor& in) {
  require(out.numel() == 1, kernel, "out must have one element", out);
  require_loss(kernel, out, in);
}

Rows dot_rows(const Tensor& out, const Tensor& in, const Tensor& row) {
  const Rows shape = rows_of("dot_rows", in, row);
  require(out.numel() == 1, "dot_rows", "out must have one element", out);
  require_loss("dot_rows", out, in, row);
  return shape;
}

void dot(const Kernels::Gradient& total, const Tensor& a, const Tensor& b) {
  require(total.out.numel() == 1 && a.numel() == b.numel(), "dot",
          "operands must have equal numbers of elements, and the total one", total.out, a, b);
  require_floats("dot", total.out, a, b);
}

Indexed embedding(const Tensor& out, const Tensor& weight, const Tensor& ids) {
  const Rows shape = rows_of("embedding", out), table = rows_of("embedding", weight);
  require(shape.length == table.length, "embedding", "out and weight must have rows of one length", out, weight);
  require_indices("embedding", ids, shape.count);
  require_floats("embedding", out, weight);
  return {shape, table.count};
}

Indexed embedding_backward(const Kernels::Gradient& weight, const Tensor& grad_out, const Tensor& ids) {
  const Rows shape = rows_of("embedding_backward", grad_out), table = rows_of("embedding_backward", weight.out);
  require(shape.length == table.length, "embedding_backward", "gradients must have rows of one length", weight.out,
          grad_out);
  require_indices("embedding_backward", ids, shape.count);
  require_floats("embedding_backward", weight.out, grad_out);
  return {shape, table.count};
}

Indexed cross_entropy(const Tensor& out, const Tensor& logits, const Tensor& targets) {
  const Rows shape = rows_of("cross_entropy", logits);
  require(out.numel() == 1, "cross_entropy", "out must have one element", out);
  require_indices("cross_entropy", targets, shape.count);
  require_loss("cross_entropy", out, logits);
  return {shape, shape.length};
}

Indexed cross_entropy_backward(const Tensor& grad_logits, const Tensor& logits, const Tensor& targets) {
  const Rows shape = rows_of("cross_entropy_backward", logits);
  require(grad_logits.numel() == logits.numel(), "cross_entropy_backward",
          "operands must have equal numbers of elements", grad_logits, logits);
  require_indices("cross_entropy_backward", targets, shape.count);
  require_floats("cross_entropy_backward", grad_logits, logits);
  return {shape, shape.length};
}

void out_of_range(const char* kernel, const char* what, std::int64_t index, const char* range, std::int64_t limit) {
  throw std::out_of_range(fmt::format("{}: {} {} is out of range; {}: {}", kernel, what, index, range, limit));
}

void add_positions(const Tensor& out, const Tensor& positions) {
  const Rows shape = rows_of("add_positions", out), table = rows_of("add_positions", positions);
  const bool fit = shape.length == table.length && table.count > 0 && shape.count % table.count == 0;
  require(fit, "add_positions", "needs whole sequences of rows [m s, n] and positions [s, n]", out, positions);
  require_floats("add_positions", out, positions);
}

void add_positions_backward(const Kernels::Gradient& positions, const Tensor& grad_out) {
  const Rows shape = rows_of("add_positions_backward", grad_out),
             table = rows_of("add_positions_backward", positions.out);
  const bool fit = shape.length == table.length && table.count > 0 && shape.count % table.count == 0;
  require(fit, "add_positions_backward", "needs positions [s, n] and whole sequences of rows [m s, n]", positions.out,
          grad_out);
  require_floats("add_positions_backward", positions.out, grad_out);
}

Rows layer_norm(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias) {
  const Rows shape = rows_of("layer_norm", in, weight);
  const bool fit = out.numel() == in.numel() && bias.numel() == weight.numel();
  require(fit, "layer_norm", "out and in must have equal numbers of elements, weight and bias too", out, in, weight,
          bias);
  require_floats("layer_norm", out, in, weight, bias);
  return shape;
}

Rows layer_norm_backward(const Kernels::LayerNormGradients& gradients, const Tensor& grad_out, const Tensor& in,
                         const Tensor& weight) {
  const Rows shape = rows_of("layer_norm_backward", in);
  const bool by_in = gradients.in.out.defined();
  require(grad_out.numel() == in.numel() && fits(gradients.in, in), "layer_norm_backward",
          "operands must have equal numbers of elements and one dtype", gradients.in.out, grad_out, in);
  for (const Tensor& row : {gradients.weight.out, gradients.bias.out, by_in ? weight : Tensor{}}) {
    require(!row.defined() || (row.dtype() == in.dtype() && static_cast<std::size_t>(row.numel()) == shape.length),
            "layer_norm_backward", "needs a matrix [m, n] and rows [n] of its dtype", in, row);
  }
  require(!by_in || weight.defined(), "layer_norm_backward", "the gradient by the input needs the weight", weight);
  require_floats("layer_norm_backward", grad_out, in);
  return shape;
}

Sequences attention(const Tensor& out, const Kernels::Attention& of) {
  const Sequences sequences = sequences_of("attention", of);
  require(out.shape() == of.value.shape(), "attention", "out must have the shape of the values", out, of.value);
  require_floats("attention", out, of.query, of.key, of.value);
  return sequences;
}

Sequences attention_backward(const Kernels::AttentionGradients& gradients, const Tensor& grad_out,
                             const Kernels::Attention& of) {
  const Sequences sequences = sequences_of("attention_backward", of);
  require(grad_out.shape() == of.value.shape(), "attention_backward", "grad_out must have the shape of the values",
          grad_out, of.value);
  for (const Kernels::Gradient& gradient : {gradients.query, gradients.key, gradients.value}) {
    require(fits(gradient, of.query), "attention_backward", "each gradient must match its input", gradient.out,
            of.query);
  }
  require_floats("attention_backward", grad_out, of.query, of.key, of.value);
  return sequences;
}

void power_sum(const Tensor& out, const Tensor& in, double power) {
  require(out.numel() == 1, "power_sum", "out must have one element", out);
  require_power("power_sum", power);
  require_real("power_sum", out, in);
}

void power_root(const Tensor& out, const Tensor& in, double power) {
  require(out.numel() == in.numel(), "power_root", "operands must have equal numbers of elements", out, in);
  require_power("power_root", power);
  require_real("power_root", out, in);
}

void clip(const Tensor& gradient, const Tensor& total_norm) {
  require(total_norm.numel() == 1, "clip", "the norm must have one element", total_norm);
  require_real("clip", gradient, total_norm);
}

void sgd(const Tensor& parameter, const Tensor& gradient) {
  require(parameter.numel() == gradient.numel(), "sgd", "operands must have equal numbers of elements", parameter,
          gradient);
  require_real("sgd", parameter, gradient);
}

void adam(const char* kernel, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
          const Tensor& moment2, const Kernels::Adam& how) {
  const bool fit = gradient.numel() == parameter.numel() && moment1.numel() == parameter.numel() &&
                   moment2.numel() == parameter.numel();
  require(fit, kernel, "operands must have equal numbers of elements", parameter, gradient, moment1, moment2);
  if (how.step < 1)
    throw std::invalid_argument(fmt::format("{}: step {} given; the first step is 1", kernel, how.step));
  require_real(kernel, parameter, gradient, moment1, moment2);
}

}  // namespace shardproof::tensor::operands
