// Generated scenarios on the engine that ships with the suite: it refuses none, no play has a race or leaves anything behind, and what is
// captured is what a serial model of other arithmetic comes to, in single and in double precision: exact, as the generator promises.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/engines/reference.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/player.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/rounds.hpp"
#include "tests/scenario/simulated.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

std::vector<Run> played(const Staged& staged) {
  std::vector<std::optional<Run>> runs(static_cast<std::size_t>(staged.ranks));
  on_thread_ranks(staged.ranks, [&](int rank, Group& group) {
    engines::Reference subject;
    runs[static_cast<std::size_t>(rank)] = testing::play_simulated(staged.scenario, subject, group, rank);
  });
  std::vector<Run> all;
  for (std::optional<Run>& run : runs) all.push_back(std::move(*run));
  return all;
}

/// The part of a whole value that a rank holds.
Tensor part_of(const oracles::NamedValues& values, const CapturedParameter& parameter, int rank) {
  const Tensor whole = values.tensor(rank);
  const auto dim = static_cast<std::size_t>(parameter.dim);
  Shape part = parameter.shape;
  part[dim] = parameter.shard.shape()[dim];
  const std::int64_t inner =
      std::accumulate(part.begin() + parameter.dim + 1, part.end(), std::int64_t{1}, std::multiplies<std::int64_t>());
  const std::int64_t outer = std::accumulate(part.begin(), part.begin() + parameter.dim, std::int64_t{1}, std::multiplies<std::int64_t>());
  const auto from = whole.values<float>();
  std::vector<float> taken;
  for (std::int64_t i = 0; i < outer; ++i) {
    const auto begin = from.begin() + (i * parameter.shape[dim] + parameter.start) * inner;
    taken.insert(taken.end(), begin, begin + part[dim] * inner);
  }
  return Tensor::of<float>(part, taken);
}

void check_exact(const Staged& staged, const std::vector<Run>& runs, oracles::Arithmetic arithmetic) {
  const auto expected = oracles::train_serially(staged.scenario, staged.ranks, arithmetic);
  for (int rank = 0; rank < staged.ranks; ++rank) {
    const Run& run = runs[static_cast<std::size_t>(rank)];
    REQUIRE(run.captures().size() == expected.size());
    for (std::size_t capture = 0; capture < expected.size(); ++capture) {
      CAPTURE(rank, capture);
      const Capture& found = run.captures()[capture];
      CHECK(static_cast<float>(found.loss) == static_cast<float>(expected[capture].losses.at(static_cast<std::size_t>(rank))));
      for (std::size_t i = 0; i < found.parameters.size(); ++i) {
        const CapturedParameter& parameter = found.parameters[i];
        CAPTURE(parameter.name);
        if (parameter.shard.numel() == 0) continue;
        CHECK(parameter.shard == part_of(expected[capture].parameters[i], parameter, rank));
        if (parameter.second.defined()) CHECK(parameter.second == part_of(expected[capture].seconds[i], parameter, rank));
        const oracles::NamedValues& gradient = expected[capture].gradients[i];
        if (parameter.gradient.defined() && gradient.defined()) CHECK(parameter.gradient == part_of(gradient, parameter, rank));
      }
    }
  }
}

/// Nowhere is anything rounded twice but to a lower precision. Else single precision rounds a mean of three, or a product
/// that is alone in its sum, and then once more.
bool is_rounded_once(const Staged& staged) {
  const Plan& plan = staged.scenario.plan;
  bool has_sums = staged.scenario.script.input[0] > 1;
  visit(staged.scenario.model.root, "", [&](const Module& module, const std::string&) {
    has_sums = has_sums && (module.kind != ModuleKind::linear || std::min(module.in_features, module.out_features) > 1);
  });
  if (!has_sums) return false;
  return staged.ranks != 3 && fully_shard(plan).gradient_divide_factor != 3 && !plan.mixed_precision.reduce;
}

}  // namespace

TEST_CASE("what is generated is played, soundly, and captures what any arithmetic comes to") {
  const auto names = feature_names();
  const Palette everything = palette(std::vector<std::string>(names.begin(), names.end()), {});
  // More of them by the environment: SHARDPROOF_SEEDS=100000.
  const char* const asked = std::getenv("SHARDPROOF_SEEDS");
  const std::uint64_t seeds = asked != nullptr ? std::strtoull(asked, nullptr, 10) : testing::rounds(250U);
  std::size_t captures = 0, twice = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Staged staged = generate(seed, std::vector{1, 2, 3, 4}, everything);
    const std::vector<Run> runs = played(staged);
    for (const Run& run : runs) {
      REQUIRE(run.races().empty());
      REQUIRE(run.left_alive() == 0);
      captures += run.captures().size();
    }
    check_exact(staged, runs, oracles::Arithmetic::f32);
    if (!is_rounded_once(staged)) continue;
    check_exact(staged, runs, oracles::Arithmetic::f64);
    ++twice;
  }
  CHECK(captures > seeds);
  CHECK(twice > seeds / 10);
}
