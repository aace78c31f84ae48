// The factors of a number: the sizes of equal groups that ranks can be split into. Inner header.
#pragma once

#include <vector>

namespace shardproof::scenario {

/// Ascending.
inline std::vector<int> factors(int number) {
  std::vector<int> all;
  for (int factor = 1; factor <= number; ++factor) {
    if (number % factor == 0) all.push_back(factor);
  }
  return all;
}

}  // namespace shardproof::scenario
