// The element-by-element layout of flat parameters against what PyTorch's FullyShardedDataParallel laid out.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "fixtures/oracles/flat_layout.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "tests/golden_tables/golden_tables.hpp"

using namespace shardproof;
using namespace shardproof::oracles;

namespace {

// One layer without a bias for each parameter, as no layout depends on more than numbers of elements.
Scenario of_sizes(const golden::FlatLayout& recorded) {
  Scenario scenario;
  for (const std::int64_t elements : recorded.elements) {
    scenario.model.root.children.push_back({.name = "l" + std::to_string(scenario.model.root.children.size()),
                                            .kind = ModuleKind::linear,
                                            .in_features = elements,
                                            .out_features = 1,
                                            .bias = false});
  }
  flat_shard_plan(scenario.plan).wrap = {""};
  flat_shard_plan(scenario.plan).use_orig_params = recorded.use_orig_params;
  return scenario;
}

float value(const FlatUnit::Element& element, const std::vector<std::int64_t>& elements) {
  if (element.content != FlatUnit::Content::value) return element.content == FlatUnit::Content::marked ? 42 : 0;
  return formula::tensor(static_cast<std::uint32_t>(1 + element.parameter), {elements[element.parameter]}, 8)
      .values<float>()[element.index];
}

}  // namespace

TEST_CASE("flat layouts: each element of each part is what PyTorch put there") {
  for (const golden::FlatLayout& recorded : golden::flat_layouts()) {
    CAPTURE(recorded.world, recorded.use_orig_params, recorded.module);
    const std::vector<FlatUnit> units = flat_units(of_sizes(recorded), recorded.world);
    REQUIRE(units.size() == 1);
    const FlatUnit& unit = units.front();
    REQUIRE(unit.part() == static_cast<std::size_t>(recorded.shard));
    for (std::size_t rank = 0; rank < recorded.ranks.size(); ++rank) {
      std::vector<float> part;
      for (std::size_t i = 0; i < unit.part(); ++i)
        part.push_back(value(unit.elements[rank * unit.part() + i], recorded.elements));
      CHECK(part == recorded.ranks[rank].values);
    }
  }
}

TEST_CASE("flat layouts: a unit's values are counted without padding, and copies share no parts") {
  Scenario scenario = of_sizes({.use_orig_params = true, .elements = {3, 5}});
  flat_shard_plan(scenario.plan).strategy = ShardStrategy::hybrid;
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  const FlatUnit unit = flat_units(scenario, 4).at(0);
  CHECK(unit.values() == 8);
  CHECK(unit.elements.size() == 10);
  CHECK(unit.ranks == 2);
}
