#include "harness/fabric/fold.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>

#include "harness/tensor/elements.hpp"

namespace shardproof::fabric {

namespace {

using tensor::elements::low_precision;

/// One operation, one rounding. A float has more than twice the digits of the short types, so two roundings give the
/// same result as one.
template <class T, class F>
T rounded(T a, T b, F operation) {
  if constexpr (low_precision<T>) {
    return static_cast<T>(operation(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (std::is_integral_v<T>) {
    // Unsigned and too wide for a promotion to int: it wraps around as hardware does.
    using Wide = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(operation(static_cast<Wide>(a), static_cast<Wide>(b)));
  } else {
    return operation(a, b);
  }
}

template <class T> T sum(T a, T b) {
  return rounded(a, b, [](auto x, auto y) { return x + y; });
}
template <class T> T product(T a, T b) {
  return rounded(a, b, [](auto x, auto y) { return x * y; });
}
template <class T> T quotient(T a, int ranks) {
  if constexpr (low_precision<T>) {
    return static_cast<T>(static_cast<float>(a) / static_cast<float>(ranks));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(a) / ranks);
  } else {
    return a / static_cast<T>(ranks);
  }
}
template <class T> bool is_nan([[maybe_unused]] T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return value != value;
  }
}

template <class T> T load(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}
template <class T> void store(std::byte* to, std::size_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

/// The size of blocks that stay in the first-level cache while the ranks are added to them one after the other.
constexpr std::size_t block_bytes = 4096;

template <class T, class First, class Next, class Last>
void fold_blocks(const Operands& operands, std::byte* out, std::size_t count, First first, Next next, Last last) {
  constexpr std::size_t block = block_bytes / sizeof(T);
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t length = std::min(block, count - begin);
    std::byte* to = out + begin * sizeof(T);
    for (int rank = 0; rank < operands.number; ++rank) {
      const std::byte* from = operands.first + static_cast<std::size_t>(rank) * operands.stride + begin * sizeof(T);
      if (rank == 0) {
        for (std::size_t i = 0; i < length; ++i) store(to, i, first(load<T>(from, i)));
      } else {
        for (std::size_t i = 0; i < length; ++i) store(to, i, next(load<T>(to, i), load<T>(from, i)));
      }
    }
    last(to, length);
  }
}

template <class T>
void fold_as(ReduceOp op, double factor, const Operands& operands, std::byte* out, std::size_t count) {
  const auto same = [](T x) { return x; };
  const auto nothing = [](std::byte*, std::size_t) {};
  switch (op) {
    case ReduceOp::sum: return fold_blocks<T>(operands, out, count, same, sum<T>, nothing);
    case ReduceOp::avg:
      return fold_blocks<T>(operands, out, count, same, sum<T>, [&](std::byte* block, std::size_t length) {
        for (std::size_t i = 0; i < length; ++i) store(block, i, quotient(load<T>(block, i), operands.number));
      });
    case ReduceOp::premul_sum: {
      const T by = tensor::elements::convert<T>(factor);
      return fold_blocks<T>(
          operands, out, count, [by](T x) { return product(x, by); }, [by](T a, T x) { return sum(a, product(x, by)); },
          nothing);
    }
    case ReduceOp::max:
      return fold_blocks<T>(
          operands, out, count, same, [](T a, T x) { return x > a || is_nan(x) ? (is_nan(a) ? a : x) : a; }, nothing);
    case ReduceOp::min:
      return fold_blocks<T>(
          operands, out, count, same, [](T a, T x) { return x < a || is_nan(x) ? (is_nan(a) ? a : x) : a; }, nothing);
    case ReduceOp::none: break;
  }
  throw std::invalid_argument(fmt::format("a reduction by \"{}\"", to_string(op)));
}

}  // namespace

void fold(DType dtype, ReduceOp op, double factor, const Operands& operands, std::byte* out, std::size_t count) {
  tensor::elements::visit(dtype,
                          [&](auto type) { fold_as<typename decltype(type)::type>(op, factor, operands, out, count); });
}

}  // namespace shardproof::fabric
