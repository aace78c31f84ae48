// The common part of both sides of the comparison: the size of the call, and the number of calls.
#pragma once

#include <chrono>
#include <cstddef>

namespace shardproof::bench {

inline constexpr std::size_t all_reduce_elements = 256;  ///< of f32: 1 KiB

/// The mean time of consecutive calls, after warm-up calls that do not count.
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
