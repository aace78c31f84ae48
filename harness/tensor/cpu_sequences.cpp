#include <algorithm>
#include <cmath>

#include "harness/tensor/cpu_kernels.hpp"
#include "harness/tensor/cpu_operands.hpp"

namespace shardproof::cpu {
namespace {

/// Sequences of `positions` rows of d features each.
struct Sequences {
  std::size_t count, positions, features;
};

Sequences sequences_of(const char* kernel, const Kernels::Attention& of) {
  const auto& [query, key, value, positions] = of;
  const Rows shape = rows_of(kernel, query);
  require(query.shape() == key.shape() && query.shape() == value.shape(), kernel, "query, key and value must have one shape", query, key,
          value);
  require(positions > 0 && shape.count % static_cast<std::size_t>(positions) == 0, kernel, "needs whole sequences of rows", query);
  return {shape.count / static_cast<std::size_t>(positions), static_cast<std::size_t>(positions), shape.length};
}

template <class T> T inner_product(const T* a, const T* b, std::size_t count) {
  T total{0};
  for (std::size_t i = 0; i < count; ++i) total += a[i] * b[i];
  return total;
}

/// How much position `at` of a sequence takes from itself and from each position before it; they sum to 1. `query` and `key` point to the
/// sequence's first row.
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
  const Rows shape = rows_of("embedding", out), table = rows_of("embedding", weight);
  require(shape.length == table.length, "embedding", "out and weight must have rows of one length", out, weight);
  const auto id = indices("embedding", ids, shape.count, table.count, "token", "vocabulary");
  visit_real(
      "embedding",
      [&](auto type) {
        using T = typename decltype(type)::type;
        for (std::size_t i = 0; i < shape.count; ++i) {
          const auto row = weight.values<T>().subspan(static_cast<std::size_t>(id[i]) * shape.length, shape.length);
          std::ranges::copy(row, out.values<T>().subspan(i * shape.length).begin());
        }
      },
      out, weight);
}

void CpuKernels::embedding_backward(NativeStream, const Gradient& weight, const Tensor& grad_out, const Tensor& ids) const {
  const Rows shape = rows_of("embedding_backward", grad_out), table = rows_of("embedding_backward", weight.out);
  require(shape.length == table.length, "embedding_backward", "gradients must have rows of one length", weight.out, grad_out);
  const auto id = indices("embedding_backward", ids, shape.count, table.count, "token", "vocabulary");
  visit_real(
      "embedding_backward",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const auto slope = grad_out.values<T>();
        std::vector<T> totals(table.count * table.length);
        for (std::size_t i = 0; i < shape.count; ++i) {
          const std::size_t row = static_cast<std::size_t>(id[i]) * shape.length;
          for (std::size_t j = 0; j < shape.length; ++j) totals[row + j] += slope[i * shape.length + j];
        }
        deliver(weight, totals);
      },
      weight.out, grad_out);
}

void CpuKernels::add_positions(NativeStream, const Tensor& out, const Tensor& positions) const {
  const Rows shape = rows_of("add_positions", out), table = rows_of("add_positions", positions);
  const bool fit = shape.length == table.length && table.count > 0 && shape.count % table.count == 0;
  require(fit, "add_positions", "needs whole sequences of rows [m s, n] and positions [s, n]", out, positions);
  visit_real(
      "add_positions",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const auto target = out.values<T>(), addend = positions.values<T>();
        for (std::size_t i = 0; i < target.size(); ++i) target[i] += addend[i % addend.size()];
      },
      out, positions);
}

void CpuKernels::add_positions_backward(NativeStream, const Gradient& positions, const Tensor& grad_out) const {
  const Rows shape = rows_of("add_positions_backward", grad_out), table = rows_of("add_positions_backward", positions.out);
  const bool fit = shape.length == table.length && table.count > 0 && shape.count % table.count == 0;
  require(fit, "add_positions_backward", "needs positions [s, n] and whole sequences of rows [m s, n]", positions.out, grad_out);
  visit_real(
      "add_positions_backward",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const auto slope = grad_out.values<T>();
        std::vector<T> totals(table.count * table.length);
        for (std::size_t i = 0; i < slope.size(); ++i) totals[i % totals.size()] += slope[i];
        deliver(positions, totals);
      },
      positions.out, grad_out);
}

void CpuKernels::attention(NativeStream, const Tensor& out, const Attention& of) const {
  const Sequences sequences = sequences_of("attention", of);
  require(out.shape() == of.value.shape(), "attention", "out must have the shape of the values", out, of.value);
  visit_real(
      "attention",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const auto& [count, positions, features] = sequences;
        for (std::size_t sequence = 0; sequence < count; ++sequence) {
          const std::size_t begin = sequence * positions * features;
          const T* const value = of.value.values<T>().data() + begin;
          T* const target = out.values<T>().data() + begin;
          for (std::size_t at = 0; at < positions; ++at) {
            const std::vector<T> shares = attended<T>(of.query.values<T>().data() + begin, of.key.values<T>().data() + begin, at, features);
            for (std::size_t j = 0; j < features; ++j) {
              T total{0};
              for (std::size_t from = 0; from <= at; ++from) total += shares[from] * value[from * features + j];
              target[at * features + j] = total;
            }
          }
        }
      },
      out, of.query, of.key, of.value);
}

void CpuKernels::attention_backward(NativeStream, const AttentionGradients& gradients, const Tensor& grad_out, const Attention& of) const {
  const Sequences sequences = sequences_of("attention_backward", of);
  require(grad_out.shape() == of.value.shape(), "attention_backward", "grad_out must have the shape of the values", grad_out, of.value);
  for (const Gradient& gradient : {gradients.query, gradients.key, gradients.value}) {
    require(fits(gradient, of.query), "attention_backward", "gradients must be like what they are by", gradient.out, of.query);
  }
  visit_real(
      "attention_backward",
      [&](auto type) {
        using T = typename decltype(type)::type;
        const auto& [count, positions, features] = sequences;
        const T root = std::sqrt(static_cast<T>(features));
        const std::size_t elements = count * positions * features;
        std::vector<T> by_query(elements), by_key(elements), by_value(elements);
        for (std::size_t sequence = 0; sequence < count; ++sequence) {
          const std::size_t begin = sequence * positions * features;
          const T* const query = of.query.values<T>().data() + begin;
          const T* const key = of.key.values<T>().data() + begin;
          const T* const value = of.value.values<T>().data() + begin;
          const T* const slope = grad_out.values<T>().data() + begin;
          for (std::size_t at = 0; at < positions; ++at) {
            const std::vector<T> shares = attended(query, key, at, features);
            std::vector<T> by_share;
            T common{0};  // the shares sum to 1: what one gains the others lose
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
      },
      grad_out, of.query, of.key, of.value);
}

}  // namespace shardproof::cpu
