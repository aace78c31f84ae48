// What is called, and how often, on both sides of the comparison.
#pragma once

#include <chrono>
#include <cstddef>

namespace shardproof::bench {

inline constexpr std::size_t all_reduce_elements = 256;  ///< of f32: 1 KiB

/// Mean over many calls in a row, after some that nobody counts.
template <class Call>
double ns_per_call(const Call& call) {
  constexpr int warm_up = 200;
  constexpr int calls = 5'000;
  for (int i = 0; i < warm_up; ++i) call();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

}  // namespace shardproof::bench
