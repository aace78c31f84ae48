// When values are rounded shows in their last bits: 256 + 1 - 256 is 1 in single precision, and 0 where every sum is
// rounded to bf16.
#include <string>
#include <vector>

#include "fixtures/oracles/rounding.hpp"
#include "harness/player/play.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/extensions/precision_scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

// The smallest power of two whose next integer is not a value of the dtype. For f32, and without a dtype, the power for
// bf16.
double big_of(const std::string& reduce) { return reduce == "f16" ? 2048 : 256; }
bool is_rounded(const std::string& reduce) { return reduce == "bf16" || reduce == "f16"; }

// Each of the iterations of one_layer but the last leaves its gradient unreduced, or unreduced among replicas.
Scenario postponed(Scenario scenario, ActionKind what) {
  auto& segments = scenario.script.segments;
  segments.front().body.insert(segments.front().body.begin(), {.kind = what, .value = false});
  segments.back().body.insert(segments.back().body.begin(), {.kind = what, .value = true});
  return scenario;
}

// Two iterations come first, whose gradients are dropped: rounding must stay right.
Scenario after_two_iterations(Scenario scenario) {
  scenario.script.given.insert(scenario.script.given.begin(), 2, {{1}});
  scenario.script.segments.insert(
      scenario.script.segments.begin(),
      {.iterations = 2, .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}}});
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("extensions/rounded_between_backwards", clauses("EXT-24"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("reduce", "none", "f32", "bf16", "f16"),
                 needs(Feature::mixed_precision, Feature::gradient_accumulation)) {
  const std::string& reduce = rank.param("reduce");
  const double big = big_of(reduce);
  const MixedPrecision policy{.param = DType::bf16, .reduce = dtype_named(reduce)};
  const Scenario layer = one_layer({.given = {{{big}}, {{1}}, {{-big}}}, .policy = policy});
  const Run run = play(rank, after_two_iterations(postponed(layer, ActionKind::set_requires_gradient_sync)));
  CHECK(gradient_of_one_layer(rank, run) == (is_rounded(reduce) ? 0 : 1));
}

RANKED_TEST_CASE("extensions/rounded_once_within_a_backward", clauses("EXT-24"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("reduce", "none", "bf16", "f16"), needs(Feature::mixed_precision)) {
  const std::string& reduce = rank.param("reduce");
  const double big = big_of(reduce);
  const MixedPrecision policy{.param = DType::bf16, .reduce = dtype_named(reduce)};
  const Run run = play(rank, one_layer({.batch = 3, .given = {{{big, 1, -big}}}, .policy = policy}));
  CHECK(gradient_of_one_layer(rank, run) == 1);
}

RANKED_TEST_CASE("extensions/rounded_between_ranks", clauses("EXT-24"), ranks(2, 3, 4), more_ranks(5, 7, 8),
                 each("param", "f32", "bf16"), each("reduce", "none", "f32", "bf16", "f16"),
                 needs(Feature::mixed_precision)) {
  if (!adds_in_rank_order(rank)) rank.skip("the fabric does not promise to add in the order of ranks");
  const std::string& reduce = rank.param("reduce");
  const double big = big_of(reduce);
  const int world = rank.world().size();
  std::vector<std::vector<double>> by_rank(static_cast<std::size_t>(world), {1});
  by_rank.front() = {big};
  if (world > 2) by_rank.back() = {-big};
  const Run run = play(rank, one_layer({.given = {by_rank}, .policy = policy_of(rank)}));
  const double expected = world > 2
                              ? (is_rounded(reduce) ? 0 : static_cast<float>(world - 2) / static_cast<float>(world))
                              : big / 2 + (is_rounded(reduce) ? 0 : 0.5);
  CHECK(gradient_of_one_layer(rank, run) == expected);
}

RANKED_TEST_CASE("extensions/rounded_among_replicas", clauses("EXT-24"), ranks(4), each("replicas", 2, 4),
                 each("reduce", "none", "bf16", "f16"),
                 needs(Feature::mixed_precision, Feature::replicated_mesh, Feature::gradient_accumulation)) {
  // Sums that wait for the replicas are kept, and added to, in what gradients are reduced in.
  const std::string& reduce = rank.param("reduce");
  const double big = big_of(reduce);
  const MixedPrecision policy{.param = DType::bf16, .reduce = dtype_named(reduce)};
  Scenario scenario = postponed(one_layer({.given = {{{big}}, {{1}}, {{-big}}}, .policy = policy}),
                                ActionKind::set_requires_all_reduce);
  scenario.plan.mesh = replicated(rank.param<int>("replicas"), 4);
  CHECK(gradient_of_one_layer(rank, play(rank, scenario)) == (is_rounded(reduce) ? 0 : 1));
}

RANKED_TEST_CASE("extensions/parameters_rounded_to_compute", clauses("EXT-24"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 needs(Feature::mixed_precision)) {
  // The first step makes of -1 and -1 the weights -257 and 255. Computed with: -256 and 255.
  Scenario scenario =
      one_layer({.in = 2, .out = 1, .given = {{{256, -256}}, {{1, 1}}}, .policy = {.param = DType::bf16}});
  scenario.script.segments.front().body.insert(scenario.script.segments.front().body.end(),
                                               {{ActionKind::step}, {ActionKind::capture}, {ActionKind::zero_grad}});
  const Run run = play(rank, scenario);
  REQUIRE(run.captures().size() == 2);
  CHECK(run.captures()[0].loss == 0);
  CHECK(run.captures()[1].loss == -1);
  const Tensor& shard = run.captures()[1].parameters.at(0).shard;
  if (shard.numel() > 0) CHECK(shard.to_doubles() == std::vector<double>{-257, 255});
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
}

RANKED_TEST_CASE("extensions/shards_are_not_rounded", clauses("EXT-24"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 needs(Feature::mixed_precision)) {
  // Eight steps of a thousandth from -1 on. In bf16 the next numbers are 1/128 away. So the first four steps do not
  // change the computed values. If an engine forgot them in its shards, no later step would change the values either.
  const double step = 1.0 / 1024;
  Scenario scenario = one_layer({.given = {{{step}}}, .policy = {.param = DType::bf16}});
  scenario.script.segments = {{.iterations = 8,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  scenario.model.root.children.front().out_features = 2;  // both weights are -1
  const Run run = play(rank, scenario);
  REQUIRE(run.captures().size() == 8);
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    const Capture& captured = run.captures()[static_cast<std::size_t>(i)];
    CHECK(captured.loss == 2 * step * oracles::rounded_to(DType::bf16, -1 - i * step));
    for (const double weight : captured.parameters.at(0).shard.to_doubles()) CHECK(weight == -1 - (i + 1) * step);
  }
}

}  // namespace shardproof::extensions
