#include "harness/device/cuda/cuda_kernels.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "harness/device/cuda/kernels/table.hpp"
#include "harness/device/cuda/staging.hpp"
#include "harness/tensor/adam_coefficients.hpp"
#include "harness/tensor/operands.hpp"

namespace shardproof::device::cuda {

using bodies::IndexKind;

namespace {

using bodies::IndexKind;

bool in_host_memory(const Tensor& tensor) { return tensor.storage()->buffer() == 0; }

/// A kernel on the device cannot reach plain host memory. Undefined operands have no memory.
void require_on_device(const char* kernel, std::initializer_list<const Tensor*> operands) {
  for (const Tensor* operand : operands) {
    if (operand->defined() && in_host_memory(*operand)) {
      throw std::invalid_argument(
          fmt::format("{}: operands must be in device memory; {} {} is in host memory: copy it to the device first",
                      kernel, to_string(operand->dtype()), to_string(operand->shape())));
    }
  }
}

template <class T> T* data(const Tensor& tensor) { return reinterpret_cast<T*>(tensor.data()); }

std::int64_t size(std::size_t count) { return static_cast<std::int64_t>(count); }

int blas_size(std::size_t length) {
  if (length > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::invalid_argument(
        fmt::format("matmul: a dimension of {}; cuBLAS takes up to {}", length, std::numeric_limits<int>::max()));
  }
  return static_cast<int>(length);
}

/// The table's product for matrices of elements T.
template <class T> auto gemm_of(const CublasTable& cublas) {
  if constexpr (std::is_same_v<T, float>) return cublas.sgemm;
  else if constexpr (std::is_same_v<T, double>) return cublas.dgemm;
  else if constexpr (std::is_same_v<T, bodies::Bf16>) return cublas.bf16gemm;
  else return cublas.f16gemm;
}

/// Calls `body` with the Type of the operands' elements in device memory, for a floating dtype.
template <class Body> void visit_float(DType dtype, Body&& body) {
  if (dtype == DType::bf16) body(tensor::elements::Type<bodies::Bf16>{});
  else if (dtype == DType::f16) body(tensor::elements::Type<bodies::F16>{});
  else tensor::operands::visit_real(dtype, body);
}

}  // namespace

void check(const bodies::IndexError& error) {
  switch (error.kind) {
    case IndexKind::none: return;
    case IndexKind::embedding:
      tensor::operands::out_of_range("embedding", "token", error.index, "vocabulary", error.limit);
    case IndexKind::embedding_backward:
      tensor::operands::out_of_range("embedding_backward", "token", error.index, "vocabulary", error.limit);
    case IndexKind::cross_entropy:
      tensor::operands::out_of_range("cross_entropy", "target", error.index, "classes", error.limit);
    case IndexKind::cross_entropy_backward:
      tensor::operands::out_of_range("cross_entropy_backward", "target", error.index, "classes", error.limit);
  }
}

CudaKernels::CudaKernels(const VendorTables& tables, bodies::IndexError* index_error, Staging& staging, Failed failed)
    : kernels_(*tables.kernels),
      cuda_(*tables.cuda),
      cublas_(*tables.cublas),
      index_error_(index_error),
      staging_(staging),
      failed_(std::move(failed)) {
  require_success(cublas_.create(&blas_), "cuBLAS", "create");
}

CudaKernels::~CudaKernels() { cublas_.destroy(blas_); }

void CudaKernels::require_success(Status status, const char* library, const char* operation) const {
  if (status != 0) failed_(status, library, operation);
}

template <class Launch, class Body>
void CudaKernels::launch(const char* operation, NativeStream stream, Launch kernel, const Body& body,
                         std::int64_t count) const {
  if (count == 0) return;
  require_success(kernel(body, count, stream), "CUDA", operation);
  ++launches_;
}

void CudaKernels::check_indices(const char* operation, NativeStream stream, const Tensor& indices, std::size_t limit,
                                IndexKind kind) const {
  launch(operation, stream, kernels_.check_indices,
         bodies::CheckIndices{data<const std::int64_t>(indices), size(limit), kind, index_error_}, indices.numel());
}

void CudaKernels::copy(NativeStream stream, const Tensor& out, const Tensor& in) const {
  tensor::operands::pair("copy", out, in);
  if (!in_host_memory(out) && !in_host_memory(in)) {
    launch("copy", stream, kernels_.copy, bodies::Copy{out.data(), in.data(), out.dtype(), in.dtype()}, out.numel());
    return;
  }
  if (in_host_memory(out) == in_host_memory(in)) require_on_device("copy", {&out});
  if (out.dtype() != in.dtype()) {
    throw std::invalid_argument(
        fmt::format("copy: cannot convert {} to {} while copying between host and device; convert on the device",
                    to_string(in.dtype()), to_string(out.dtype())));
  }
  if (out.bytes() == 0) return;
  const Status status = in_host_memory(in)
                            ? staging_.upload(out.data(), in.data(), out.bytes(), stream)
                            : cuda_.memcpy_async(out.data(), in.data(), out.bytes(), CopyKind::device_to_host, stream);
  require_success(status, "CUDA", "copy");
  ++launches_;
}

void CudaKernels::fill(NativeStream stream, const Tensor& out, double value) const {
  tensor::operands::fill(out);
  require_on_device("fill", {&out});
  launch("fill", stream, kernels_.fill, bodies::Fill{out.data(), out.dtype(), value}, out.numel());
}

void CudaKernels::scale(NativeStream stream, const Tensor& out, const Tensor& in, double factor) const {
  tensor::operands::pair("scale", out, in);
  require_on_device("scale", {&out, &in});
  launch("scale", stream, kernels_.scale, bodies::Scale{out.data(), in.data(), out.dtype(), in.dtype(), factor},
         out.numel());
}

void CudaKernels::divide(NativeStream stream, const Tensor& out, const Tensor& in, double divisor) const {
  tensor::operands::pair("divide", out, in);
  require_on_device("divide", {&out, &in});
  launch("divide", stream, kernels_.divide, bodies::Divide{out.data(), in.data(), out.dtype(), in.dtype(), divisor},
         out.numel());
}

void CudaKernels::accumulate(NativeStream stream, const Tensor& out, const Tensor& in) const {
  tensor::operands::pair("accumulate", out, in);
  require_on_device("accumulate", {&out, &in});
  launch("accumulate", stream, kernels_.accumulate, bodies::Accumulate{out.data(), in.data(), out.dtype(), in.dtype()},
         out.numel());
}

void CudaKernels::matmul(NativeStream stream, const Tensor& out, const Tensor& a, const Tensor& b, Matmul how) const {
  const tensor::operands::Product product = tensor::operands::matmul(out, a, b, how);
  require_on_device("matmul", {&out, &a, &b});
  if (out.numel() == 0) return;
  if (product.inner != 0) require_success(cublas_.set_stream(blas_, stream), "cuBLAS", "matmul");
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    if (product.inner == 0) {  // not for cuBLAS: sums over no rows
      launch("matmul", stream, kernels_.sum_rows.of<T>(),
             bodies::SumRows<T>{data<T>(out), nullptr, 0, out.numel(), how.add}, out.numel());
    } else {
      const bodies::Computed<T> keep{how.add ? 1.0F : 0.0F};
      require_success(gemm_of<T>(cublas_)(blas_, how.transpose_a, how.transpose_b, blas_size(product.out.count),
                                          blas_size(product.out.length), blas_size(product.inner), data<const T>(a),
                                          data<const T>(b), keep, data<T>(out)),
                      "cuBLAS", "matmul");
      ++launches_;
    }
  });
}

void CudaKernels::add_row(NativeStream stream, const Tensor& out, const Tensor& row) const {
  const tensor::operands::Rows shape = tensor::operands::add_row(out, row);
  require_on_device("add_row", {&out, &row});
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("add_row", stream, kernels_.add_row.of<T>(),
           bodies::AddRow<T>{data<T>(out), data<const T>(row), size(shape.length)}, out.numel());
  });
}

void CudaKernels::sum_rows(NativeStream stream, const Tensor& out, const Tensor& in, bool add) const {
  const tensor::operands::Rows shape = tensor::operands::sum_rows(out, in);
  require_on_device("sum_rows", {&out, &in});
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("sum_rows", stream, kernels_.sum_rows.of<T>(),
           bodies::SumRows<T>{data<T>(out), data<const T>(in), size(shape.count), size(shape.length), add},
           out.numel());
  });
}

void CudaKernels::relu(NativeStream stream, const Tensor& out, const Tensor& in) const {
  tensor::operands::relu(out, in);
  require_on_device("relu", {&out, &in});
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("relu", stream, kernels_.relu.of<T>(), bodies::Relu<T>{data<T>(out), data<const T>(in)}, out.numel());
  });
}

void CudaKernels::relu_backward(NativeStream stream, const Tensor& grad_in, const Tensor& grad_out,
                                const Tensor& out) const {
  tensor::operands::relu_backward(grad_in, grad_out, out);
  require_on_device("relu_backward", {&grad_in, &grad_out, &out});
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("relu_backward", stream, kernels_.relu_backward.of<T>(),
           bodies::ReluBackward<T>{data<T>(grad_in), data<const T>(grad_out), data<const T>(out)}, grad_in.numel());
  });
}

void CudaKernels::scale_by(NativeStream stream, const Tensor& out, const Tensor& in, const Tensor& factor) const {
  tensor::operands::scale_by(out, in, factor);
  require_on_device("scale_by", {&out, &in, &factor});
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("scale_by", stream, kernels_.scale_by.of<T>(),
           bodies::ScaleBy<T>{data<T>(out), data<const T>(in), data<const T>(factor)}, out.numel());
  });
}

void CudaKernels::dot(NativeStream stream, const Gradient& total, const Tensor& a, const Tensor& b) const {
  tensor::operands::dot(total, a, b);
  require_on_device("dot", {&total.out, &a, &b});
  visit_float(a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("dot", stream, kernels_.dot.of<T>(),
           bodies::Dot<T>{data<T>(total.out), data<const T>(a), data<const T>(b), a.numel(), total.add}, 1);
  });
}

void CudaKernels::embedding(NativeStream stream, const Tensor& out, const Tensor& weight, const Tensor& ids) const {
  const auto [shape, vocabulary] = tensor::operands::embedding(out, weight, ids);
  require_on_device("embedding", {&out, &weight, &ids});
  check_indices("embedding", stream, ids, vocabulary, IndexKind::embedding);
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("embedding", stream, kernels_.embedding.of<T>(),
           bodies::Embedding<T>{data<T>(out), data<const T>(weight), data<const std::int64_t>(ids), size(shape.length),
                                size(vocabulary)},
           out.numel());
  });
}

void CudaKernels::embedding_backward(NativeStream stream, const Gradient& weight, const Tensor& grad_out,
                                     const Tensor& ids) const {
  const auto [shape, vocabulary] = tensor::operands::embedding_backward(weight, grad_out, ids);
  require_on_device("embedding_backward", {&weight.out, &grad_out, &ids});
  check_indices("embedding_backward", stream, ids, vocabulary, IndexKind::embedding_backward);
  visit_float(grad_out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("embedding_backward", stream, kernels_.embedding_backward.of<T>(),
           bodies::EmbeddingBackward<T>{data<T>(weight.out), data<const T>(grad_out), data<const std::int64_t>(ids),
                                        size(shape.count), size(shape.length), weight.add},
           weight.out.numel());
  });
}

void CudaKernels::add_positions(NativeStream stream, const Tensor& out, const Tensor& positions) const {
  tensor::operands::add_positions(out, positions);
  require_on_device("add_positions", {&out, &positions});
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("add_positions", stream, kernels_.add_row.of<T>(),
           bodies::AddRow<T>{data<T>(out), data<const T>(positions), positions.numel()}, out.numel());
  });
}

void CudaKernels::add_positions_backward(NativeStream stream, const Gradient& positions, const Tensor& grad_out) const {
  tensor::operands::add_positions_backward(positions, grad_out);
  require_on_device("add_positions_backward", {&positions.out, &grad_out});
  const std::int64_t length = positions.out.numel(), sequences = grad_out.shape()[0] / positions.out.shape()[0];
  visit_float(grad_out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("add_positions_backward", stream, kernels_.sum_rows.of<T>(),
           bodies::SumRows<T>{data<T>(positions.out), data<const T>(grad_out), sequences, length, positions.add},
           length);
  });
}

void CudaKernels::layer_norm(NativeStream stream, const Tensor& out, const Tensor& in, const Tensor& weight,
                             const Tensor& bias) const {
  const tensor::operands::Rows shape = tensor::operands::layer_norm(out, in, weight, bias);
  require_on_device("layer_norm", {&out, &in, &weight, &bias});
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("layer_norm", stream, kernels_.layer_norm.of<T>(),
           bodies::LayerNorm<T>{data<T>(out), data<const T>(in), data<const T>(weight), data<const T>(bias),
                                size(shape.length)},
           size(shape.count));
  });
}

void CudaKernels::layer_norm_backward(NativeStream stream, const LayerNormGradients& gradients, const Tensor& grad_out,
                                      const Tensor& in, const Tensor& weight) const {
  const tensor::operands::Rows shape = tensor::operands::layer_norm_backward(gradients, grad_out, in, weight);
  const auto& [by_in, by_weight, by_bias] = gradients;
  require_on_device("layer_norm_backward", {&by_in.out, &by_weight.out, &by_bias.out, &grad_out, &in, &weight});
  const std::int64_t rows = size(shape.count), length = size(shape.length);
  visit_float(in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* const slope = data<const T>(grad_out);
    if (by_in.out.defined()) {
      launch("layer_norm_backward", stream, kernels_.layer_norm_backward_in.of<T>(),
             bodies::LayerNormBackwardIn<T>{data<T>(by_in.out), slope, data<const T>(in), data<const T>(weight), length,
                                            by_in.add},
             rows);
    }
    if (by_weight.out.defined()) {
      launch("layer_norm_backward", stream, kernels_.layer_norm_backward_weight.of<T>(),
             bodies::LayerNormBackwardWeight<T>{data<T>(by_weight.out), slope, data<const T>(in), rows, length,
                                                by_weight.add},
             length);
    }
    if (by_bias.out.defined()) {
      launch("layer_norm_backward", stream, kernels_.sum_rows.of<T>(),
             bodies::SumRows<T>{data<T>(by_bias.out), slope, rows, length, by_bias.add}, length);
    }
  });
}

void CudaKernels::attention(NativeStream stream, const Tensor& out, const Attention& of) const {
  const tensor::operands::Sequences sequences = tensor::operands::attention(out, of);
  require_on_device("attention", {&out, &of.query, &of.key, &of.value});
  visit_float(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("attention", stream, kernels_.attention.of<T>(),
           bodies::Attention<T>{data<T>(out), data<const T>(of.query), data<const T>(of.key), data<const T>(of.value),
                                size(sequences.positions), size(sequences.features)},
           out.numel());
  });
}

void CudaKernels::attention_backward(NativeStream stream, const AttentionGradients& gradients, const Tensor& grad_out,
                                     const Attention& of) const {
  const tensor::operands::Sequences sequences = tensor::operands::attention_backward(gradients, grad_out, of);
  const auto& [by_query, by_key, by_value] = gradients;
  require_on_device("attention_backward",
                    {&by_query.out, &by_key.out, &by_value.out, &grad_out, &of.query, &of.key, &of.value});
  const std::int64_t positions = size(sequences.positions), features = size(sequences.features);
  visit_float(grad_out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *const slope = data<const T>(grad_out), *const query = data<const T>(of.query),
                   *const key = data<const T>(of.key), *const value = data<const T>(of.value);
    if (by_query.out.defined()) {
      launch("attention_backward", stream, kernels_.attention_backward_query.of<T>(),
             bodies::AttentionBackwardQuery<T>{data<T>(by_query.out), slope, query, key, value, positions, features,
                                               by_query.add},
             grad_out.numel());
    }
    if (by_key.out.defined()) {
      launch("attention_backward", stream, kernels_.attention_backward_key.of<T>(),
             bodies::AttentionBackwardKey<T>{data<T>(by_key.out), slope, query, key, value, positions, features,
                                             by_key.add},
             grad_out.numel());
    }
    if (by_value.out.defined()) {
      launch("attention_backward", stream, kernels_.attention_backward_value.of<T>(),
             bodies::AttentionBackwardValue<T>{data<T>(by_value.out), slope, query, key, positions, features,
                                               by_value.add},
             grad_out.numel());
    }
  });
}

void CudaKernels::sum(NativeStream stream, const Tensor& out, const Tensor& in) const {
  tensor::operands::reduce("sum", out, in);
  require_on_device("sum", {&out, &in});
  visit_float(in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("sum", stream, kernels_.sum.of<T>(), bodies::Sum<T>{out.data(), out.dtype(), data<const T>(in), in.numel()},
           1);
  });
}

void CudaKernels::sum_of_squares(NativeStream stream, const Tensor& out, const Tensor& in) const {
  tensor::operands::reduce("sum_of_squares", out, in);
  require_on_device("sum_of_squares", {&out, &in});
  visit_float(in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("sum_of_squares", stream, kernels_.sum_of_squares.of<T>(),
           bodies::SumOfSquares<T>{out.data(), out.dtype(), data<const T>(in), in.numel()}, 1);
  });
}

void CudaKernels::dot_rows(NativeStream stream, const Tensor& out, const Tensor& in, const Tensor& row) const {
  const tensor::operands::Rows shape = tensor::operands::dot_rows(out, in, row);
  require_on_device("dot_rows", {&out, &in, &row});
  visit_float(in.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("dot_rows", stream, kernels_.dot_rows.of<T>(),
           bodies::DotRows<T>{out.data(), out.dtype(), data<const T>(in), data<const T>(row), size(shape.count),
                              size(shape.length)},
           1);
  });
}

void CudaKernels::cross_entropy(NativeStream stream, const Tensor& out, const Tensor& logits,
                                const Tensor& targets) const {
  const auto [shape, classes] = tensor::operands::cross_entropy(out, logits, targets);
  require_on_device("cross_entropy", {&out, &logits, &targets});
  check_indices("cross_entropy", stream, targets, classes, IndexKind::cross_entropy);
  visit_float(logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("cross_entropy", stream, kernels_.cross_entropy.of<T>(),
           bodies::CrossEntropy<T>{out.data(), out.dtype(), data<const T>(logits), data<const std::int64_t>(targets),
                                   size(shape.count), size(shape.length)},
           1);
  });
}

void CudaKernels::cross_entropy_backward(NativeStream stream, const Tensor& grad_logits, const Tensor& logits,
                                         const Tensor& targets) const {
  const auto [shape, classes] = tensor::operands::cross_entropy_backward(grad_logits, logits, targets);
  require_on_device("cross_entropy_backward", {&grad_logits, &logits, &targets});
  check_indices("cross_entropy_backward", stream, targets, classes, IndexKind::cross_entropy_backward);
  visit_float(logits.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("cross_entropy_backward", stream, kernels_.cross_entropy_backward.of<T>(),
           bodies::CrossEntropyBackward<T>{data<T>(grad_logits), data<const T>(logits),
                                           data<const std::int64_t>(targets), size(shape.count), size(shape.length)},
           size(shape.count));
  });
}

void CudaKernels::power_sum(NativeStream stream, const Tensor& out, const Tensor& in, double power, bool add) const {
  tensor::operands::power_sum(out, in, power);
  require_on_device("power_sum", {&out, &in});
  tensor::operands::visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("power_sum", stream, kernels_.power_sum.of<T>(),
           bodies::PowerSum<T>{data<T>(out), data<const T>(in), in.numel(), power, add}, 1);
  });
}

void CudaKernels::power_root(NativeStream stream, const Tensor& out, const Tensor& in, double power) const {
  tensor::operands::power_root(out, in, power);
  require_on_device("power_root", {&out, &in});
  tensor::operands::visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("power_root", stream, kernels_.power_root.of<T>(),
           bodies::PowerRoot<T>{data<T>(out), data<const T>(in), power}, out.numel());
  });
}

void CudaKernels::clip(NativeStream stream, const Tensor& gradient, const Tensor& total_norm, double max_norm) const {
  tensor::operands::clip(gradient, total_norm);
  require_on_device("clip", {&gradient, &total_norm});
  tensor::operands::visit_real(gradient.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("clip", stream, kernels_.clip.of<T>(),
           bodies::Clip<T>{data<T>(gradient), data<const T>(total_norm), static_cast<T>(max_norm)}, gradient.numel());
  });
}

void CudaKernels::sgd(NativeStream stream, const Tensor& parameter, const Tensor& gradient, double rate) const {
  tensor::operands::sgd(parameter, gradient);
  require_on_device("sgd", {&parameter, &gradient});
  tensor::operands::visit_real(parameter.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("sgd", stream, kernels_.sgd.of<T>(),
           bodies::Sgd<T>{data<T>(parameter), data<const T>(gradient), static_cast<T>(-rate)}, parameter.numel());
  });
}

void CudaKernels::update(const char* operation, NativeStream stream, const Tensor& parameter, const Tensor& gradient,
                         const Tensor& moment1, const Tensor& moment2, const Adam& how,
                         bool decay_off_parameter) const {
  tensor::operands::adam(operation, parameter, gradient, moment1, moment2, how);
  require_on_device(operation, {&parameter, &gradient, &moment1, &moment2});
  tensor::operands::visit_real(parameter.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch(operation, stream, kernels_.adam.of<T>(),
           bodies::Adam<T>{data<T>(parameter), data<const T>(gradient), data<T>(moment1), data<T>(moment2),
                           tensor::AdamCoefficients<T>(how), decay_off_parameter},
           parameter.numel());
  });
}

void CudaKernels::adam(NativeStream stream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
                       const Tensor& moment2, const Adam& how) const {
  update("adam", stream, parameter, gradient, moment1, moment2, how, false);
}

void CudaKernels::adamw(NativeStream stream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
                        const Tensor& moment2, const Adam& how) const {
  update("adamw", stream, parameter, gradient, moment1, moment2, how, true);
}

}  // namespace shardproof::device::cuda
