// Sums in an order that a test chooses, as other libraries and processors may choose it. The kernels of
// `shardproof-sums-worker` use them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace shardproof::sums {

enum class Order : std::uint8_t { ascending, descending, pairwise };

struct Choice {
  Order order = Order::ascending;
  bool fused = false;  ///< adds a product without rounding it first
};

/// Reads SHARDPROOF_SUMS: `ascending`, `descending` or `pairwise`, or one of them with `_fused` at its end. Ends the
/// process for any other word, and if the variable is missing: a test that chooses nothing would prove nothing.
const Choice& choice();

/// The index of the term that is added as number `i` of `count`, in a loop that adds to several sums at once.
inline std::size_t place(std::size_t i, std::size_t count) {
  return choice().order == Order::ascending ? i : count - 1 - i;
}

/// The sum of the terms from `begin` to `end`. `add` adds term i to a total.
template <class T, class Add>
T added(Order order, std::size_t begin, std::size_t end, const Add& add) {
  T total{0};
  switch (order) {
    case Order::ascending:
      for (std::size_t i = begin; i < end; ++i) total = add(total, i);
      return total;
    case Order::descending:
      for (std::size_t i = end; i > begin; --i) total = add(total, i - 1);
      return total;
    case Order::pairwise: break;
  }
  constexpr std::size_t most_in_a_row = 4;
  if (end - begin <= most_in_a_row) return added<T>(Order::ascending, begin, end, add);
  const std::size_t middle = begin + (end - begin) / 2;
  return added<T>(order, begin, middle, add) + added<T>(order, middle, end, add);
}

template <class T, class Term>
T of(std::size_t count, Term term) {
  return added<T>(choice().order, 0, count, [&](T total, std::size_t i) -> T { return total + term(i); });
}

template <class T, class Left, class Right>
T of_products(std::size_t count, Left left, Right right) {
  const Choice chosen = choice();
  if (chosen.fused)
    return added<T>(chosen.order, 0, count,
                    [&](T total, std::size_t i) -> T { return std::fma(left(i), right(i), total); });
  return added<T>(chosen.order, 0, count, [&](T total, std::size_t i) -> T { return total + left(i) * right(i); });
}

}  // namespace shardproof::sums
