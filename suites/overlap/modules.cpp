// Models and groups of every shape: nested, several modules in one group, modules that run twice or not at all,
// parameters that are frozen, ignored or shared.
#include <algorithm>

#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

Module use(std::string name, std::string target) {
  return {.name = std::move(name), .kind = ModuleKind::use, .target = std::move(target)};
}

Module block(ModuleKind kind, std::string name, std::vector<Module> children) {
  return {.name = std::move(name), .kind = kind, .children = std::move(children)};
}

// Integer values, and three steps that are so small that values of several layers stay small.
Scenario with(std::vector<Module> children, std::vector<WrapGroup> wrap, bool reshard) {
  Scenario scenario = small_mlp({.rate = 1.0 / 1024}, true, 3);
  scenario.model.root.children = std::move(children);
  fully_shard_plan(scenario.plan).wrap = std::move(wrap);
  using Kind = ReshardAfterForward::Kind;
  for (WrapGroup& group : fully_shard_plan(scenario.plan).wrap)
    group.reshard_after_forward.kind = reshard ? Kind::yes : Kind::no;
  return scenario;
}

Module frozen(Module module) {
  module.frozen = true;
  return module;
}

struct Shape {
  const char* name;
  std::vector<Module> children;
  std::vector<WrapGroup> wrap;
  std::size_t reductions;  ///< groups that have gradients to reduce
  std::size_t more = 0;  ///< a module that runs twice may be reduced each time
};

// The one with that name.
Shape shape_named(const std::string& name) {
  const Module l0 = linear("l0", 4, 6), l1 = linear("l1", 6, 3), square = linear("square", 4, 4), act = relu("relu");
  const std::vector<Shape> all{
      {"nested",
       {block(ModuleKind::sequential, "body", {l0, act, linear("inner", 6, 6)}), l1},
       {{{"body.inner"}}, {{"body"}}, {{""}}},
       3},
      {"several", {l0, act, l1}, {{{"l0", "l1"}}, {{""}}}, 1},
      {"several_one_unused",
       {l0, act, l1, block(ModuleKind::list, "spare", {square})},
       {{{"l0", "spare.square"}}, {{"l1"}}, {{""}}},
       2},
      {"unused",
       {l0, act, l1, block(ModuleKind::list, "spare", {square})},
       {{{"l0"}}, {{"spare.square"}}, {{"l1"}}, {{""}}},
       2},
      {"not_in_loss",
       {block(ModuleKind::discard, "aside", {square}), l0, act, l1},
       {{{"aside"}}, {{"l0"}}, {{"l1"}}, {{""}}},
       2},
      {"twice", {square, act, use("again", "square"), l0, l1}, {{{"square"}}, {{"l0"}}, {{"l1"}}, {{""}}}, 3, 1},
      {"residual",
       {block(ModuleKind::residual, "sum", {square, act}), l0, l1},
       {{{"sum"}}, {{"l0"}}, {{"l1"}}, {{""}}},
       3},
      {"frozen_group", {frozen(l0), act, l1}, {{{"l0"}}, {{"l1"}}, {{""}}}, 1},
      {"frozen_in_group", {l0, act, frozen(linear("inner", 6, 6)), l1}, {{{""}}}, 1},
      {"frozen_last", {l0, act, frozen(l1)}, {{{"l0"}}, {{"l1"}}, {{""}}}, 1},
      {"several_then_one", {l0, act, linear("inner", 6, 6), l1}, {{{"l0", "inner"}}, {{"l1"}}, {{""}}}, 2},
      // The group is gathered for two modules outside the loss, and one module in the loss uses it. No gradient reaches
      // those two modules.
      {"used_beside",
       {block(ModuleKind::discard, "aside", {square}), use("again", "aside.square"),
        block(ModuleKind::discard, "late", {linear("c", 4, 4)}), l0, act, l1},
       {{{"late.c", "aside"}}, {{"l0"}}, {{"l1"}}, {{""}}},
       3},
      // The group's last module leads nowhere, and its first one needs its weight in the backward.
      {"several_then_aside",
       {l0, act, l1, block(ModuleKind::discard, "aside", {linear("c", 3, 3)})},
       {{{"l0"}}, {{"l1", "aside.c"}}, {{""}}},
       2},
      {"without_parameters", {l0, act, l1}, {{{"l0"}}, {{"relu"}}, {{"l1"}}, {{""}}}, 2},
      {"scaled", {l0, act, {.name = "scale", .kind = ModuleKind::scale}, l1}, {{{"scale"}}, {{""}}}, 2}};
  return *std::ranges::find(all, name, [](const Shape& shape) { return std::string(shape.name); });
}

}  // namespace

RANKED_TEST_CASE("overlap/modules",
                 clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-11", "OVL-12", "OVL-15", "OVL-16", "OVL-17"),
                 ranks(1, 2, 3, 4),
                 each("shape", "nested", "several", "unused", "not_in_loss", "twice", "residual", "frozen_group",
                      "frozen_in_group", "frozen_last", "scaled", "several_one_unused", "several_then_one",
                      "several_then_aside", "used_beside", "without_parameters"),
                 each("reshard", false, true), needs(Feature::timeline, Feature::module_groups)) {
  const Shape shape = shape_named(rank.param("shape"));
  // An evaluation first: what a module that takes no part would leave open shows in the forward after it.
  Scenario scenario = with(shape.children, shape.wrap, rank.param<bool>("reshard"));
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin(), {ActionKind::evaluate});
  const Run run = play_accepted(rank, scenario);
  // The first step is exact, but where a module runs twice: thirds of two gradients are rounded before they are added,
  // or their sum is.
  const bool is_rounded = shape.more > 0 && mean_rounds(rank);
  const Tolerance tolerance =
      is_rounded ? Tolerance{.loss = 1e-2, .gradient = 1e-3, .parameter = 1e-4} : exact_at_first;
  check_training(rank, run, oracles::Arithmetic::f32, tolerance, Moves::some_parameter);
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    if (rank.param<bool>("reshard")) {
      const auto judged = rank.under("OVL-11");
      for (const ActionKind call : {ActionKind::evaluate, ActionKind::forward}) {
        CHECK(iteration.live_after(MemoryClass::parameter, call).buffers == 0);
      }
    }
    check_nothing_is_left(rank, run, iteration.index());
    const auto judged = rank.under("OVL-17");
    const std::size_t reductions = iteration.count(CollectiveKind::reduce_scatter);
    if (rank.world().size() == 1) {
      CHECK(reductions == 0);
    } else {
      CHECK(reductions >= shape.reductions);
      CHECK(reductions <= shape.reductions + shape.more);
    }
  }
  const auto judged = rank.under("OVL-17");
  check_all_in_iterations(run, CollectiveKind::reduce_scatter);
}

RANKED_TEST_CASE("overlap/gathers_of_a_module_used_twice", clauses("OVL-24"), ranks(2, 3, 4),
                 also_with_discarded_module(), needs(Feature::timeline, Feature::module_groups), tags("reference")) {
  // The order is a, b, a again, c. Each group is gathered for every use, forward and backward, and the group before it
  // is gathered ahead.
  const Module a = linear("a", 4, 4), b = linear("b", 4, 4), c = linear("c", 4, 3);
  const Run run = play_accepted(rank, with({a, b, use("again", "a"), c}, {{{"a"}}, {{"b"}}, {{"c"}}, {{""}}}, true));
  const auto gathered = [](const Iteration& iteration, ActionKind call) {
    std::string tags;
    for (const fact::Collective& collective : iteration.collectives(call)) {
      if (collective.kind == CollectiveKind::all_gather) tags += collective.tag;
    }
    return tags;
  };
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(gathered(iteration, ActionKind::forward) == "abac");
    CHECK(gathered(iteration, ActionKind::backward) == "caba");
  }
}

RANKED_TEST_CASE("overlap/frozen_is_not_reduced", clauses("OVL-10", "OVL-17"), ranks(2, 3, 4),
                 needs(Feature::timeline, Feature::module_groups)) {
  // Two of three layers in one group train: the operand holds their gradients and nothing of the third.
  const Run run =
      play(rank, with({linear("l0", 4, 6), frozen(linear("inner", 6, 6)), linear("l1", 6, 3)}, {{{""}}}, true));
  check_training(rank, run, oracles::Arithmetic::f32, exact_at_first, Moves::some_parameter);
  const auto world = static_cast<std::uint64_t>(rank.world().size());
  const auto padded = [world](std::uint64_t rows) { return (rows + world - 1) / world * world; };
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-17");
    const auto all = iteration.collectives(ActionKind::backward);
    const auto reduction = std::ranges::find(all, CollectiveKind::reduce_scatter, &fact::Collective::kind);
    REQUIRE(reduction != all.end());
    CHECK(reduction->in_count == padded(6) * 4 + padded(6) + padded(3) * 6 + padded(3));
  }
}

RANKED_TEST_CASE("overlap/ignored_parameters", clauses("OVL-10", "OVL-15"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, Feature::ignored_parameters)) {
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  fully_shard_plan(scenario.plan).ignored_parameters = {"l0.bias", "l1.weight"};
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) check_nothing_is_left(rank, run, iteration.index());
}

RANKED_TEST_CASE("overlap/shard_dims", clauses("OVL-4", "OVL-6", "OVL-10", "OVL-15", "OVL-18"), ranks(1, 2, 3, 4),
                 each("reshard", false, true), needs(Feature::timeline, FullyShardFeature::shard_dims)) {
  const int world = rank.world().size();
  Scenario scenario = with({linear("l0", 4, 12), relu("relu"), linear("l1", 12, 3)}, {{{"l0"}}, {{"l1"}}, {{""}}},
                           rank.param<bool>("reshard"));
  fully_shard_plan(scenario.plan).shard_dims = {{"l1.weight", -1}};
  fully_shard_plan(scenario.plan).shard_dims["l0.bias"] = 0;
  if (world != 3) fully_shard_plan(scenario.plan).shard_dims["l0.weight"] = 1;
  scenario.plan.optimizer.rate = 0.25;
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_sound(rank, run);
  const auto judged = rank.under("OVL-18");
  REQUIRE(run.captures().size() == 3);
  for (const Capture& capture : run.captures()) {
    const auto held = std::ranges::find(capture.parameters, "l1.weight", &CapturedParameter::name);
    REQUIRE(held != capture.parameters.end());
    CHECK(held->dim == 1);
    CHECK(held->shard.shape() == shardproof::Shape{3, 12 / world});
  }
}

RANKED_TEST_CASE("overlap/shard_dims_of_three", clauses("OVL-4", "OVL-6", "OVL-10", "OVL-15", "OVL-17", "OVL-18"),
                 ranks(1, 2, 3, 4), each("dim", -3, -2, -1, 0, 1, 2), each("reshard", false, true),
                 needs(Feature::timeline, Feature::convolution, FullyShardFeature::shard_dims)) {
  // Ranks share the last two dimensions evenly, and not the first one.
  const std::int64_t world = rank.world().size(), features = 2 * world * world;
  const shardproof::Shape whole{5, 2 * world, world};
  Scenario scenario =
      with({linear("l0", 4, features), relu("relu"), convolution("window", whole[1], features, whole[0])},
           {{{"l0"}}, {{"window"}}, {{""}}}, rank.param<bool>("reshard"));
  fully_shard_plan(scenario.plan).shard_dims = {{"window.weight", rank.param<int>("dim")}};
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_at_first);
  check_sound(rank, run);
  check_plan_is_communicated(rank, run);

  const auto dim = static_cast<std::size_t>((rank.param<int>("dim") + 3) % 3);
  const auto padded = [world](std::int64_t rows) { return (rows + world - 1) / world * world; };
  const std::int64_t elements = (dim == 0 ? padded(whole[0]) : whole[0]) * features + padded(whole[0]);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    {
      const auto judged = rank.under("OVL-17");
      check_count(iteration, CollectiveKind::reduce_scatter, world == 1 ? 0 : 2);
    }
    const auto judged = rank.under("OVL-18");
    for (const fact::Collective& call : iteration.collectives()) {
      if (call.tag != "window") continue;
      const bool gathers = call.kind == CollectiveKind::all_gather;
      CHECK(call.in_count == static_cast<std::uint64_t>(gathers ? elements / world : elements));
    }
    check_nothing_is_left(rank, run, iteration.index());
  }
  const auto judged = rank.under("OVL-18");
  REQUIRE(run.captures().size() == 3);
  for (const Capture& capture : run.captures()) {
    const auto held = std::ranges::find(capture.parameters, "window.weight", &CapturedParameter::name);
    REQUIRE(held != capture.parameters.end());
    CHECK(held->shape == whole);
    CHECK(held->dim == static_cast<int>(dim));
    shardproof::Shape part = whole;
    part[dim] = dim == 0 ? held->shard.shape()[0] : whole[dim] / world;
    CHECK(held->shard.shape() == part);
  }
}

RANKED_TEST_CASE("overlap/gradient_divide_factor", clauses("OVL-10"), ranks(1, 2, 3, 4), each("factor", 1, 4, 8),
                 needs(FullyShardFeature::gradient_divide_factor)) {
  Scenario scenario = small_mlp({.rate = 0.015625}, true, 1);
  fully_shard_plan(scenario.plan).gradient_divide_factor = rank.param<int>("factor");
  check_training(rank, play(rank, scenario), oracles::Arithmetic::f32, {});
}

}  // namespace shardproof::overlap
