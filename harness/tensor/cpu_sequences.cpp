#include <algorithm>
#include <cmath>

#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::tensor::cpu {

using operands::visit_real;

namespace {

template <class T> T inner_product(const T* a, const T* b, std::size_t count) {
  T total{0};
  for (std::size_t i = 0; i < count; ++i) total += a[i] * b[i];
  return total;
}

/// How much position `at` of a sequence takes from itself and from each position before it; they sum to 1. `query` and
/// `key` point to the sequence's first row.
template <class T> std::vector<T> attended(const T* query, const T* key, std::size_t at, std::size_t features) {
  const T root = std::sqrt(static_cast<T>(features));
  std::vector<T> shares;
  for (std::size_t from = 0; from <= at; ++from)
    shares.push_back(inner_product(query + at * features, key + from * features, features) / root);
  const T largest = *std::ranges::max_element(shares);
  T total{0};
  for (T& share : shares) total += share = std::exp(share - largest);
  for (T& share : shares) share /= total;
  return shares;
}

}  // namespace

void CpuKernels::embedding(NativeStream, const Tensor& out, const Tensor& weight, const Tensor& ids) const {
  const auto [shape, vocabulary] = operands::embedding(out, weight, ids);
  const auto id = indices("embedding", ids, vocabulary, "token", "vocabulary");
  const std::size_t length = shape.length * size_of(out.dtype());  // rows are copied as they are, whatever their dtype
  for (std::size_t i = 0; i < shape.count; ++i) {
    const auto row = weight.values<std::byte>().subspan(static_cast<std::size_t>(id[i]) * length, length);
    std::ranges::copy(row, out.values<std::byte>().subspan(i * length).begin());
  }
}

void CpuKernels::embedding_backward(NativeStream, const Gradient& weight, const Tensor& grad_out,
                                    const Tensor& ids) const {
  const auto [shape, vocabulary] = operands::embedding_backward(weight, grad_out, ids);
  const auto id = indices("embedding_backward", ids, vocabulary, "token", "vocabulary");
  const Tensor above = widened(grad_out);
  visit_real(weight.out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto slope = above.values<T>();
    std::vector<T> totals(vocabulary * shape.length);
    for (std::size_t i = 0; i < shape.count; ++i) {
      const std::size_t row = static_cast<std::size_t>(id[i]) * shape.length;
      for (std::size_t j = 0; j < shape.length; ++j) totals[row + j] += slope[i * shape.length + j];
    }
    deliver(weight, totals);
  });
}

void CpuKernels::add_positions(NativeStream, const Tensor& out, const Tensor& positions) const {
  operands::add_positions(out, positions);
  const Tensor added = widened(positions), result = widened(out);
  visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto target = result.values<T>(), addend = added.values<T>();
    for (std::size_t i = 0; i < target.size(); ++i) target[i] += addend[i % addend.size()];
  });
  round_to(out, result);
}

void CpuKernels::add_positions_backward(NativeStream, const Gradient& positions, const Tensor& grad_out) const {
  operands::add_positions_backward(positions, grad_out);
  const Tensor above = widened(grad_out);
  visit_real(positions.out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto slope = above.values<T>();
    std::vector<T> totals(static_cast<std::size_t>(positions.out.numel()));
    for (std::size_t i = 0; i < slope.size(); ++i) totals[i % totals.size()] += slope[i];
    deliver(positions, totals);
  });
}

void CpuKernels::attention(NativeStream, const Tensor& out, const Attention& of) const {
  const operands::Sequences sequences = operands::attention(out, of);
  const Tensor queries = widened(of.query), keys = widened(of.key), values = widened(of.value), result = widened(out);
  visit_real(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto& [count, positions, features] = sequences;
    for (std::size_t sequence = 0; sequence < count; ++sequence) {
      const std::size_t begin = sequence * positions * features;
      const T* const value = values.values<T>().data() + begin;
      T* const target = result.values<T>().data() + begin;
      for (std::size_t at = 0; at < positions; ++at) {
        const std::vector<T> shares =
            attended<T>(queries.values<T>().data() + begin, keys.values<T>().data() + begin, at, features);
        for (std::size_t j = 0; j < features; ++j) {
          T total{0};
          for (std::size_t from = 0; from <= at; ++from) total += shares[from] * value[from * features + j];
          target[at * features + j] = total;
        }
      }
    }
  });
  round_to(out, result);
}

void CpuKernels::attention_backward(NativeStream, const AttentionGradients& gradients, const Tensor& grad_out,
                                    const Attention& of) const {
  const operands::Sequences sequences = operands::attention_backward(gradients, grad_out, of);
  const Tensor queries = widened(of.query), keys = widened(of.key), values = widened(of.value),
               above = widened(grad_out);
  visit_real(grad_out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto& [count, positions, features] = sequences;
    const T root = std::sqrt(static_cast<T>(features));
    const std::size_t elements = count * positions * features;
    std::vector<T> by_query(elements), by_key(elements), by_value(elements);
    for (std::size_t sequence = 0; sequence < count; ++sequence) {
      const std::size_t begin = sequence * positions * features;
      const T* const query = queries.values<T>().data() + begin;
      const T* const key = keys.values<T>().data() + begin;
      const T* const value = values.values<T>().data() + begin;
      const T* const slope = above.values<T>().data() + begin;
      for (std::size_t at = 0; at < positions; ++at) {
        const std::vector<T> shares = attended(query, key, at, features);
        std::vector<T> by_share;
        T common{0};  // the shares sum to 1: if a share grows, the others shrink
        for (std::size_t from = 0; from <= at; ++from) {
          by_share.push_back(inner_product(slope + at * features, value + from * features, features));
          common += by_share[from] * shares[from];
        }
        for (std::size_t from = 0; from <= at; ++from) {
          const T by_score = shares[from] * (by_share[from] - common) / root;
          for (std::size_t j = 0; j < features; ++j) {
            by_query[begin + at * features + j] += by_score * key[from * features + j];
            by_key[begin + from * features + j] += by_score * query[at * features + j];
            by_value[begin + from * features + j] += shares[from] * slope[at * features + j];
          }
        }
      }
    }
    deliver(gradients.query, by_query);
    deliver(gradients.key, by_key);
    deliver(gradients.value, by_value);
  });
}

}  // namespace shardproof::tensor::cpu
