// Random numbers that depend only on a seed, not on the standard library or the machine.
#pragma once

#include <cstdint>

namespace shardproof::base {

/// splitmix64: the next number of the sequence whose state is `state`. Neighbouring states give unlike numbers.
constexpr std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15U);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace shardproof::base
