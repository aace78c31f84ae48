// What a generator of scenarios draws by: a seed gives the same draws everywhere. Inner header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/protocol/random.hpp"

namespace shardproof::scenario {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  /// From `least` to `most`, both among them. That some come out more often by a hair matters to nobody here.
  int between(int least, int most) { return least + static_cast<int>(next_random(state_) % static_cast<std::uint64_t>(most - least + 1)); }
  /// In so many of a hundred cases.
  bool chance(int percent) { return between(0, 99) < percent; }
  /// Of a list that is not empty.
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(between(0, static_cast<int>(all.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace shardproof::scenario
