// The mesh that follows the hosts of a world.
#include "harness/scenario/plan/host_mesh.hpp"

#include <catch2/catch_test_macros.hpp>
#include <stdexcept>

namespace shardproof {
namespace {

TEST_CASE("a mesh over hosts shards inside each host") {
  const Mesh mesh = mesh_over_hosts(Placement({{"n1", "a", {0, 1, 2}}, {"n2", "b", {3, 4, 5}}}));
  CHECK(mesh == Mesh{.shape = {2, 3}, .names = {"replicate", "shard"}});
  CHECK(mesh_over_hosts(Placement({{"n1", "a", {0, 1}}})).shape == std::vector{1, 2});
}

TEST_CASE("a mesh cannot follow hosts of different sizes, nor ranks that alternate between hosts") {
  CHECK_THROWS_AS(mesh_over_hosts(Placement({{"n1", "a", {0, 1}}, {"n2", "b", {2}}})), std::invalid_argument);
  CHECK_THROWS_AS(mesh_over_hosts(Placement({{"n1", "a", {0, 2}}, {"n2", "b", {1, 3}}})), std::invalid_argument);
}

}  // namespace
}  // namespace shardproof
