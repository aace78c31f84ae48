// Generated scenarios on the engine that ships with the suite. It refuses none, no play has a race, and all memory is
// released. Captured values are those of a serial model with different arithmetic, in single and in double precision:
// exact, as the generator promises.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/engines/serial_comparison.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

/// Nowhere is anything rounded twice but to a lower precision. Else single precision rounds a mean of three, or a
/// product that is alone in its sum, and then once more.
bool is_rounded_once(const Staged& staged) {
  const Plan& plan = staged.scenario.plan;
  bool has_sums = staged.scenario.script.input[0] > 1;
  visit(staged.scenario.model.root, "", [&](const Module& module, const std::string&) {
    has_sums = has_sums && (module.kind != ModuleKind::linear || std::min(module.in_features, module.out_features) > 1);
  });
  if (!has_sums) return false;
  return staged.ranks != 3 && fully_shard_plan(plan).gradient_divide_factor != 3 && !plan.mixed_precision.reduce;
}

}  // namespace

TEST_CASE("generated scenarios play soundly, and their captures agree with any arithmetic") {
  const Palette everything = full_palette("fully_shard");
  // More of them by the environment: SHARDPROOF_SEEDS=100000.
  const char* const asked = std::getenv("SHARDPROOF_SEEDS");
  const std::uint64_t seeds = asked != nullptr ? std::strtoull(asked, nullptr, 10) : testing::rounds(250U);
  std::size_t captures = 0, compared = 0, twice = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    const Staged staged = generate("fully_shard", seed, std::vector{1, 2, 3, 4}, everything);
    const std::vector<Run> runs = testing::played(staged.scenario, staged.ranks);
    for (const Run& run : runs) {
      REQUIRE(run.races().empty());
      REQUIRE(run.left_alive() == 0);
      captures += run.captures().size();
    }
    if (runs.front().captures().empty()) continue;  // a few have no capture
    testing::check_exact(staged.scenario, runs, oracles::Arithmetic::f32);
    ++compared;
    if (!is_rounded_once(staged)) continue;
    testing::check_exact(staged.scenario, runs, oracles::Arithmetic::f64);
    ++twice;
  }
  CHECK(captures > seeds);
  CHECK(compared > seeds / 3);
  CHECK(twice > seeds / 20);
}
