// Compares the captures of the reference engine with the serial model: their bits are equal.
#pragma once

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "fixtures/engines/reference.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/player/player.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/player/simulated.hpp"

namespace shardproof::testing {

inline std::vector<Run> played(const Scenario& scenario, int ranks) {
  std::vector<std::optional<Run>> runs(static_cast<std::size_t>(ranks));
  on_thread_ranks(ranks, [&](int rank, Group& group) {
    engines::Reference subject;
    runs[static_cast<std::size_t>(rank)] = play_simulated(scenario, subject, group, rank);
  });
  std::vector<Run> all;
  for (std::optional<Run>& run : runs) all.push_back(std::move(*run));
  return all;
}

/// The part of a whole value that a rank holds.
inline Tensor part_of(const oracles::NamedValues& values, const CapturedParameter& parameter, int rank) {
  const Tensor whole = values.tensor(rank);
  if (parameter.dim == flattened) return whole.flatten().narrow(parameter.start, parameter.shard.numel());
  const auto dim = static_cast<std::size_t>(parameter.dim);
  Shape part = parameter.shape;
  part[dim] = parameter.shard.shape()[dim];
  const std::int64_t inner =
      std::accumulate(part.begin() + parameter.dim + 1, part.end(), std::int64_t{1}, std::multiplies<std::int64_t>());
  const std::int64_t outer =
      std::accumulate(part.begin(), part.begin() + parameter.dim, std::int64_t{1}, std::multiplies<std::int64_t>());
  const auto from = whole.values<float>();
  std::vector<float> taken;
  for (std::int64_t i = 0; i < outer; ++i) {
    const auto begin = from.begin() + (i * parameter.shape[dim] + parameter.start) * inner;
    taken.insert(taken.end(), begin, begin + part[dim] * inner);
  }
  return Tensor::of<float>(part, taken);
}

inline Tensor in_f32(const Tensor& values) {
  const std::vector<double> wide = values.to_doubles();
  return Tensor::of<float>(values.shape(), std::vector<float>(wide.begin(), wide.end()));
}

/// By rank, what was captured. Every rank with a part of a parameter has a gradient of it if the serial model does. The
/// ranks hold each element of each parameter. With `first`, the later captures are not compared.
inline void check_exact(const Scenario& scenario, const std::vector<Run>& runs, oracles::Arithmetic arithmetic,
                        std::optional<std::size_t> first = std::nullopt) {
  const int ranks = static_cast<int>(runs.size());
  auto expected = oracles::train_serially(scenario, ranks, arithmetic);
  REQUIRE(ranks > 0);
  REQUIRE(runs.front().captures().size() == expected.size());
  if (first) expected.resize(std::min(*first, expected.size()));
  REQUIRE(expected.size() > 0);
  std::vector<std::int64_t> compared(expected.size());  // elements, by capture
  for (int rank = 0; rank < ranks; ++rank) {
    const Run& run = runs[static_cast<std::size_t>(rank)];
    REQUIRE(run.captures().size() == runs.front().captures().size());
    for (std::size_t capture = 0; capture < expected.size(); ++capture) {
      CAPTURE(rank, capture);
      const Capture& found = run.captures()[capture];
      const auto index = static_cast<std::size_t>(rank);
      if (arithmetic == oracles::Arithmetic::f32 || expected[capture].loss_errors.at(index) == 0)
        CHECK(static_cast<float>(found.loss) == static_cast<float>(expected[capture].losses.at(index)));
      REQUIRE(found.parameters.size() == expected[capture].parameters.size());
      for (std::size_t i = 0; i < found.parameters.size(); ++i) {
        const CapturedParameter& parameter = found.parameters[i];
        CAPTURE(parameter.name);
        REQUIRE(parameter.name == expected[capture].parameters[i].name);
        REQUIRE(parameter.shape == expected[capture].parameters[i].shape);
        REQUIRE(parameter.shard.defined());
        compared[capture] += parameter.shard.numel();
        if (parameter.shard.numel() == 0) continue;
        CHECK(parameter.shard.dtype() == scenario.plan.engine.get()->dtype_of(parameter.name));
        CHECK(in_f32(parameter.shard) == part_of(expected[capture].parameters[i], parameter, rank));
        if (parameter.second.defined())
          CHECK(parameter.second == part_of(expected[capture].seconds[i], parameter, rank));
        const oracles::NamedValues& gradient = expected[capture].gradients[i];
        CHECK(parameter.gradient.defined() == gradient.defined());
        if (!parameter.gradient.defined() || !gradient.defined()) continue;
        CHECK(parameter.gradient.dtype() == parameter.shard.dtype());
        CHECK(in_f32(parameter.gradient) == part_of(gradient, parameter, rank));
      }
    }
  }
  for (std::size_t capture = 0; capture < expected.size(); ++capture) {
    std::int64_t elements = 0;
    for (const oracles::NamedValues& parameter : expected[capture].parameters) elements += numel(parameter.shape);
    CHECK(elements > 0);
    CHECK(compared[capture] >= elements);
  }
}

}  // namespace shardproof::testing
