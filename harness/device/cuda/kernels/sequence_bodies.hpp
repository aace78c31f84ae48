// Bodies of the kernels on tokens and on sequences of tokens, and the check of indices.
#pragma once

#include <cmath>
#include <cstdint>

#include "harness/device/cuda/kernels/conversions.hpp"
#include "harness/device/cuda/kernels/portable.hpp"

namespace shardproof::device::cuda::bodies {

/// The kernel whose index is out of range.
enum class IndexKind : std::uint32_t { none, embedding, embedding_backward, cross_entropy, cross_entropy_backward };

/// An index that was out of range. A device cannot throw, so the first such index stays here until the host reads it,
/// at its next synchronization. It is in memory that both see (or that the host copies), all zero at first.
struct IndexError {
  std::uint32_t claimed;  ///< Set by the thread that writes the rest.
  IndexKind kind;  ///< Written last; none: no index was out of range.
  std::int64_t index, limit;
};

/// Launched before every kernel that uses indices; i is an index. Those kernels skip what a wrong index selects. They
/// touch no foreign memory, but their output is not a valid result.
struct CheckIndices {
  const std::int64_t* indices;
  std::int64_t limit;
  IndexKind kind;
  IndexError* error;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t index = indices[i];
    if ((index >= 0 && index < limit) || !claim(&error->claimed)) return;
    error->index = index;
    error->limit = limit;
    publish(reinterpret_cast<std::uint32_t*>(&error->kind), static_cast<std::uint32_t>(kind));
  }
};

/// i is an element of `out`, whose rows have `length` elements.
template <class T> struct Embedding {
  T* out;
  const T* weight;
  const std::int64_t* ids;
  std::int64_t length, vocabulary;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t id = ids[i / length];
    if (id >= 0 && id < vocabulary) out[i] = weight[id * length + i % length];
  }
};

/// i is an element of `out`, the gradient by the weight. Every element looks through all ids, because sums must ascend.
template <class T> struct EmbeddingBackward {
  T* out;
  const T* grad_out;
  const std::int64_t* ids;
  std::int64_t rows, length;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    Computed<T> total{0};
    for (std::int64_t row = 0; row < rows; ++row) {
      if (ids[row] == i / length) total += loaded(grad_out[row * length + i % length]);
    }
    deliver(out[i], total, add);
  }
};

template <class T> SHARDPROOF_HOST_DEVICE Computed<T> inner_product(const T* a, const T* b, std::int64_t count) {
  Computed<T> total{0};
  for (std::int64_t i = 0; i < count; ++i) total += loaded(a[i]) * loaded(b[i]);
  return total;
}

/// How much position `at` of a sequence takes from itself and from each position before it; the shares sum to 1. A
/// share is computed again wherever it is needed, because there is no memory for shares.
template <class T> struct Attended {
  using C = Computed<T>;

  /// `query` and `key` point to the sequence's first row.
  SHARDPROOF_HOST_DEVICE Attended(const T* query, const T* key, std::int64_t at, std::int64_t features)
      : query_(query + at * features),
        key_(key),
        features_(features),
        root_(std::sqrt(static_cast<C>(features))),
        largest_(score(0)) {
    for (std::int64_t from = 1; from <= at; ++from) {
      const C next = score(from);
      if (largest_ < next) largest_ = next;
    }
    for (std::int64_t from = 0; from <= at; ++from) total_ += std::exp(score(from) - largest_);
  }
  SHARDPROOF_HOST_DEVICE C share(std::int64_t from) const { return std::exp(score(from) - largest_) / total_; }
  SHARDPROOF_HOST_DEVICE C root() const { return root_; }

 private:
  SHARDPROOF_HOST_DEVICE C score(std::int64_t from) const {
    return inner_product(query_, key_ + from * features_, features_) / root_;
  }

  const T* query_;
  const T* key_;
  std::int64_t features_;
  C root_, largest_, total_{0};
};

/// An element of a matrix of sequences, [n, features].
struct Place {
  SHARDPROOF_HOST_DEVICE Place(std::int64_t i, std::int64_t positions, std::int64_t features)
      : feature(i % features), position(i / features % positions), sequence(i - position * features - feature) {}
  std::int64_t feature, position;
  std::int64_t sequence;  ///< the first element of its sequence
};

/// i is an element of `out`.
template <class T> struct Attention {
  T* out;
  const T* query;
  const T* key;
  const T* value;
  std::int64_t positions, features;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const Place place(i, positions, features);
    const Attended<T> attended(query + place.sequence, key + place.sequence, place.position, features);
    Computed<T> total{0};
    for (std::int64_t from = 0; from <= place.position; ++from) {
      total += attended.share(from) * loaded(value[place.sequence + from * features + place.feature]);
    }
    out[i] = rounded<T>(total);
  }
};

/// How the scores of position `at` change what it takes. The shares sum to 1, so if a share grows, the others shrink.
/// Pointers are to the sequence's first row.
template <class T> struct AttendedSlopes {
  SHARDPROOF_HOST_DEVICE AttendedSlopes(const T* query, const T* key, const T* value, const T* slope, std::int64_t at,
                                        std::int64_t features)
      : attended_(query, key, at, features), slope_(slope + at * features), value_(value), features_(features) {
    for (std::int64_t from = 0; from <= at; ++from) common_ += by_share(from) * attended_.share(from);
  }
  SHARDPROOF_HOST_DEVICE Computed<T> by_score(std::int64_t from) const {
    return attended_.share(from) * (by_share(from) - common_) / attended_.root();
  }

 private:
  SHARDPROOF_HOST_DEVICE Computed<T> by_share(std::int64_t from) const {
    return inner_product(slope_, value_ + from * features_, features_);
  }

  Attended<T> attended_;
  const T* slope_;
  const T* value_;
  std::int64_t features_;
  Computed<T> common_{0};
};

/// The gradient by the queries; i is an element of it.
template <class T> struct AttentionBackwardQuery {
  T* out;
  const T* grad_out;
  const T* query;
  const T* key;
  const T* value;
  std::int64_t positions, features;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const Place place(i, positions, features);
    const std::int64_t begin = place.sequence;
    const AttendedSlopes<T> slopes(query + begin, key + begin, value + begin, grad_out + begin, place.position,
                                   features);
    Computed<T> total{0};
    for (std::int64_t from = 0; from <= place.position; ++from)
      total += slopes.by_score(from) * loaded(key[begin + from * features + place.feature]);
    deliver(out[i], total, add);
  }
};

/// The gradient by the keys; i is an element of it. It sums over the positions that attend to its own position.
template <class T> struct AttentionBackwardKey {
  T* out;
  const T* grad_out;
  const T* query;
  const T* key;
  const T* value;
  std::int64_t positions, features;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const Place place(i, positions, features);
    const std::int64_t begin = place.sequence;
    Computed<T> total{0};
    for (std::int64_t at = place.position; at < positions; ++at) {
      const AttendedSlopes<T> slopes(query + begin, key + begin, value + begin, grad_out + begin, at, features);
      total += slopes.by_score(place.position) * loaded(query[begin + at * features + place.feature]);
    }
    deliver(out[i], total, add);
  }
};

/// The gradient by the values; i is an element of it.
template <class T> struct AttentionBackwardValue {
  T* out;
  const T* grad_out;
  const T* query;
  const T* key;
  std::int64_t positions, features;
  bool add;

  SHARDPROOF_HOST_DEVICE void operator()(std::int64_t i) const {
    const Place place(i, positions, features);
    Computed<T> total{0};
    for (std::int64_t at = place.position; at < positions; ++at) {
      const Attended<T> attended(query + place.sequence, key + place.sequence, at, features);
      total += attended.share(place.position) * loaded(grad_out[place.sequence + at * features + place.feature]);
    }
    deliver(out[i], total, add);
  }
};

}  // namespace shardproof::device::cuda::bodies
