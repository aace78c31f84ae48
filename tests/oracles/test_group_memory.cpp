// The closed form of memory against numbers by hand.
#include <catch2/catch_test_macros.hpp>

#include "fixtures/oracles/group_memory.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

using namespace shardproof;
using namespace shardproof::oracles;

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

// 6, 9 and 8 elements: of "a", "b" and the root.
Scenario three_groups(ReshardAfterForward::Kind reshard) {
  Scenario scenario;
  scenario.model.root.children = {linear("a", 1, 3), linear("b", 2, 3), linear("out", 3, 2)};
  fully_shard_plan(scenario.plan).wrap = {{{"a"}, {reshard}}, {{"b"}, {reshard}}, {{""}, {}}};
  return scenario;
}

}  // namespace

TEST_CASE("groups come in the order in which they are gathered, with padded parts on the wire") {
  const std::vector<GroupBytes> groups = group_bytes(three_groups(ReshardAfterForward::Kind::yes), 2);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].name.empty());
  CHECK(groups[0].whole == 4 * 8);
  CHECK(groups[0].padded == 4 * 8);
  CHECK(groups[1].name == "a");
  CHECK(groups[1].whole == 4 * 6);
  CHECK(groups[1].padded == 4 * 8);  // 3 rows become 4
  CHECK(groups[1].operand == 4 * 8);
  CHECK(groups[2].gradients == 4 * 9);
  CHECK(groups[2].operand == 4 * 12);
}

TEST_CASE("peaks: the root and one more group are whole, two gathered buffers are alive, one operand is") {
  CHECK(group_memory(three_groups(ReshardAfterForward::Kind::yes), 2) == GroupMemory{.parameter = 4 * (8 + 9),
                                                                                     .padded_parameter = 4 * (8 + 12),
                                                                                     .gathered = 4 * (8 + 12),
                                                                                     .gradient = 4 * (8 + 9),
                                                                                     .reduce_input = 4 * 12});
  CHECK(group_memory(three_groups(ReshardAfterForward::Kind::no), 2).parameter == 4 * (8 + 6 + 9));
}

TEST_CASE("a policy halves what is computed with, not what is reduced in f32") {
  Scenario scenario = three_groups(ReshardAfterForward::Kind::yes);
  scenario.plan.mixed_precision.param = DType::bf16;
  CHECK(group_memory(scenario, 2) == GroupMemory{.parameter = 2 * (8 + 9),
                                                 .padded_parameter = 2 * (8 + 12),
                                                 .gathered = 2 * (8 + 12),
                                                 .gradient = 2 * (8 + 9),
                                                 .reduce_input = 4 * 12});
}
