// Fit expresses a count of a world on many hosts as a sum of terms. It extends simulated worlds to sizes that a world
// cannot have, or that take too much memory.
#pragma once

#include <array>
#include <cstdint>

namespace shardproof::bench {

/// a + b × hosts + c × ranks + d × hosts × ranks + e × ranks².
class Fit {
 public:
  static constexpr std::size_t terms = 5;
  struct Sample {
    int hosts = 0, ranks = 0;
    std::uint64_t count = 0;
  };

  /// Passes through all samples. Throws std::invalid_argument if these sizes do not determine the terms.
  explicit Fit(const std::array<Sample, terms>& samples);
  std::uint64_t at(int hosts, int ranks) const;

 private:
  std::array<double, terms> factors_{};
};

}  // namespace shardproof::bench
