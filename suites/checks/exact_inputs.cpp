#include "suites/checks/exact_inputs.hpp"

#include <cstdint>

#include "harness/scenario/formula.hpp"

namespace shardproof::suites {

void give_one_hot_inputs(Script& script) {
  constexpr int iterations = 4, ranks = 4;
  const std::int64_t rows = script.input[0], features = script.input[1];
  script.given.clear();
  for (int iteration = 0; iteration < iterations; ++iteration) {
    auto& by_rank = script.given.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) {
      auto& values = by_rank.emplace_back(static_cast<std::size_t>(rows * features));
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto hot = static_cast<std::size_t>(row * features + (iteration + rank + row) % features);
        // The sign is that of the input by formula.
        const auto seed = static_cast<std::uint32_t>(1000 + 100 * iteration + rank);
        values[hot] = formula::small_integer(seed, static_cast<std::uint32_t>(hot)) < 0 ? -1 : 1;
      }
    }
  }
}

}  // namespace shardproof::suites
