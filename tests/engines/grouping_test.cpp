// Which parameters a group gets, and which plans are refused with what words.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <functional>
#include <stdexcept>

#include "fixtures/engines/fully_shard/grouping.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out, std::string tied_to = {}) {
  return {.name = std::move(name),
          .kind = ModuleKind::linear,
          .in_features = in,
          .out_features = out,
          .bias = false,
          .tied_to = std::move(tied_to)};
}

struct Planned {
  Model model;
  Plan plan;
};

Planned three_layers() {
  Planned planned;
  planned.model.root.children = {{.name = "block", .children = {linear("a", 4, 4), linear("b", 4, 4)}},
                                 linear("head", 4, 4)};
  fully_shard_plan(planned.plan).wrap = {{.modules = {"block.a"}}, {.modules = {"block"}}, {.modules = {""}}};
  return planned;
}

}  // namespace

TEST_CASE("a parameter belongs to the deepest wrapped module above it") {
  Planned planned = three_layers();
  CHECK(group_parameters(planned.model, planned.plan) == std::vector<std::vector<std::size_t>>{{0}, {1}, {2}});
  fully_shard_plan(planned.plan).wrap = {{.modules = {"block.a", "head"}}, {.modules = {""}}};
  CHECK(group_parameters(planned.model, planned.plan) == std::vector<std::vector<std::size_t>>{{0, 2}, {1}});
  fully_shard_plan(planned.plan).wrap = {{.modules = {"block"}}};
  fully_shard_plan(planned.plan).ignored_parameters = {"block.b.weight"};
  CHECK(group_parameters(planned.model, planned.plan) == std::vector<std::vector<std::size_t>>{{0}});
}

TEST_CASE("a dimension may be counted from the end") {
  Plan plan;
  fully_shard_plan(plan).shard_dims = {{"w", -1}, {"v", 0}, {"u", -3}};
  CHECK(shard_dim(plan, {.name = "w", .shape = {2, 3}}) == 1);
  CHECK(shard_dim(plan, {.name = "v", .shape = {2, 3}}) == 0);
  CHECK(shard_dim(plan, {.name = "u", .shape = {2, 3}}) == -1);
  CHECK(shard_dim(plan, {.name = "other", .shape = {2, 3}}) == 0);
}

TEST_CASE("a plan that cannot be carried out is refused in words") {
  using Kind = ReshardAfterForward::Kind;
  struct Wrong {
    const char* message;
    std::function<void(Planned&)> spoil;
  };
  const std::vector<Wrong> all{
      {"fully_shard: the mesh needs 1 dimension (shard) or 2 (replicate, shard), not 3",
       [](Planned& p) { p.plan.mesh = {.shape = {1, 2, 2}, .names = {}}; }},
      {"fully_shard: a mesh of 2 dimensions needs names: name the one that replicates and the one that shards",
       [](Planned& p) { p.plan.mesh = {.shape = {2, 2}, .names = {}}; }},
      {"fully_shard: a mesh of 2 x 3 has 6 ranks, the world has 4",
       [](Planned& p) { p.plan.mesh = {.shape = {2, 3}, .names = {"replicate", "shard"}}; }},
      {"fully_shard: module \"spare\" is a list, which has no forward to gather parameters for: wrap its children",
       [](Planned& p) {
         p.model.root.children.push_back({.name = "spare", .kind = ModuleKind::list});
         fully_shard_plan(p.plan).wrap.insert(fully_shard_plan(p.plan).wrap.begin(), {.modules = {"spare"}});
       }},
      {"fully_shard: module \"head\" is wrapped twice",
       [](Planned& p) {
         fully_shard_plan(p.plan).wrap.insert(fully_shard_plan(p.plan).wrap.begin(), {.modules = {"head", "head"}});
       }},
      {"fully_shard: reshard_after_forward of \"block\" is 3: an integer must be a factor of the 4 ranks that shard",
       [](Planned& p) { fully_shard_plan(p.plan).wrap[1].reshard_after_forward = {.kind = Kind::size, .size = 3}; }},
      {"fully_shard: reshard_after_forward of \"block\" is 4: an integer must be a factor of the 2 ranks that shard",
       [](Planned& p) {
         p.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
         fully_shard_plan(p.plan).wrap[1].reshard_after_forward = {.kind = Kind::size, .size = 4};
       }},
      {"fully_shard: parameter \"scale.factor\" is a scalar: make it a tensor of 1 dimension with 1 element",
       [](Planned& p) {
         p.model.root.children.push_back({.name = "scale", .kind = ModuleKind::scale, .scalar = true});
       }},
      {"fully_shard: parameter \"head.weight\" is not contiguous: only contiguous parameters can be sharded by rows",
       [](Planned& p) { p.model.root.children[1].contiguous = false; }},
      {"fully_shard: parameter \"head.weight\" is sharded along dimension 2, but its number of dimensions is 2",
       [](Planned& p) { fully_shard_plan(p.plan).shard_dims["head.weight"] = 2; }},
      {"fully_shard: parameter \"head.weight\" is sharded along dimension -3, but its number of dimensions is 2",
       [](Planned& p) { fully_shard_plan(p.plan).shard_dims["head.weight"] = -3; }},
      {"fully_shard: dimension 1 of parameter \"head.weight\" has 6 entries, which 4 ranks do not share evenly; "
       "only dimension 0 may be uneven",
       [](Planned& p) {
         p.model.root.children[1].in_features = 6;
         fully_shard_plan(p.plan).shard_dims["head.weight"] = 1;
       }},
      {"fully_shard: parameter \"block.a.weight\" is in the group of \"block.a\", but as \"head.weight\" in the group "
       "of \"\": put modules that share a parameter into one group",
       [](Planned& p) { p.model.root.children[1] = linear("head", 4, 4, "block.a"); }},
      {"fully_shard: parameter \"head.weight\" is in no group, but as \"block.b.weight\" in the group of \"block\": "
       "put modules that share a parameter into one group",
       [](Planned& p) {
         p.model.root.children[0].children[1] = linear("b", 4, 4, "head");
         fully_shard_plan(p.plan).wrap.pop_back();
       }}};
  for (const Wrong& wrong : all) {
    Planned planned = three_layers();
    CHECK_NOTHROW(check_plan(planned.model, planned.plan, 4));
    wrong.spoil(planned);
    CHECK_THROWS_MATCHES(check_plan(planned.model, planned.plan, 4), std::invalid_argument,
                         Catch::Matchers::Message(wrong.message));
  }
}

TEST_CASE("what is not sharded need not be shardable") {
  Planned planned = three_layers();
  planned.model.root.children.push_back({.name = "scale", .kind = ModuleKind::scale, .scalar = true});
  fully_shard_plan(planned.plan).ignored_parameters = {"scale.factor"};
  CHECK_NOTHROW(check_plan(planned.model, planned.plan, 4));
  fully_shard_plan(planned.plan).ignored_parameters.clear();
  fully_shard_plan(planned.plan).wrap.pop_back();  // the root
  CHECK_NOTHROW(check_plan(planned.model, planned.plan, 4));
}
