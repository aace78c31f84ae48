// Which features a kind of engine has.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "harness/scenario/plan/engine_section.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

TEST_CASE("a kind of engine has the common features, and its own") {
  static constexpr std::array own{Feature("telepathy")};
  const EngineKind kind{.name = "telepathic", .own_features = own};
  const std::vector<std::string_view> names = kind.feature_names();
  CHECK(names.size() == common_features.size() + 1);
  CHECK(names.front() == "timeline");
  CHECK(names.back() == "telepathy");
  CHECK(kind.find_feature("telepathy") == own.front());
  CHECK(kind.find_feature("timeline") == Feature::timeline);
  CHECK_FALSE(kind.find_feature("reshard_to_size"));

  CHECK(fully_shard_kind.find_feature("reshard_to_size") == FullyShardFeature::reshard_to_size);
  CHECK_FALSE(fully_shard_kind.find_feature("telepathy"));
  for (const std::string_view name : fully_shard_kind.feature_names())
    CHECK(fully_shard_kind.find_feature(name).value().name() == name);
}

TEST_CASE("features are equal, and ordered, by their names") {
  static constexpr char again[] = "serial";
  CHECK(Feature(again) == Feature::serial);
  CHECK(std::set{Feature::timeline, Feature::serial, Feature(again)} == std::set{Feature::serial, Feature::timeline});
  CHECK(Feature::serial < Feature::timeline);
}
