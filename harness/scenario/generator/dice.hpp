// The random numbers of the generator of scenarios. A seed gives the same numbers on every machine. Inner header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/base/random.hpp"

namespace shardproof::scenario {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  /// From `least` to `most`, both included. Some numbers are slightly more frequent, which does not matter here.
  int between(int least, int most) {
    return least + static_cast<int>(base::next_random(state_) % static_cast<std::uint64_t>(most - least + 1));
  }
  /// True in `percent` of 100 draws.
  bool chance(int percent) { return between(0, 99) < percent; }
  /// An element of a list that is not empty.
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(between(0, static_cast<int>(all.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace shardproof::scenario
