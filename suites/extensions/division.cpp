// By what gradients are divided, and when: numbers that are exact in every dtype come out exact, where nothing
// overflows or vanishes on the way.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "fixtures/oracles/divide_factors.hpp"
#include "fixtures/oracles/rounding.hpp"
#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/precision_scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

// Gradients of which f16, whose largest value is 65504, can hold the sum that has been divided by part of the number of
// ranks, and not the sum of all. Few bits: every sum is exact in bf16 too.
double large_in(int world) {
  static const std::map<int, double> by_world{{1, 61440}, {2, 61440}, {3, 40960}, {4, 30720},
                                              {5, 24576}, {6, 40960}, {7, 16384}, {8, 30720}};
  return by_world.at(world);
}

struct Given {
  std::vector<std::vector<double>> by_rank;
  double mean;
};

Given given_to(int world, const std::string& gradients) {
  // 2^-24 is the smallest value of f16: a quarter of this one is still a value, a third is not.
  const double small = 4.0 / (1 << 24);
  Given given{{}, gradients == "large" ? large_in(world) : gradients == "small" ? small : (world + 1) / 2.0};
  for (int rank = 0; rank < world; ++rank) given.by_rank.push_back({gradients == "distinct" ? rank + 1.0 : given.mean});
  return given;
}

Scenario divided(const Given& given, DType reduce) {
  return one_layer({.given = {given.by_rank}, .policy = {.reduce = reduce}});
}

// Work that divides, or otherwise alters, reduced gradients in place.
std::size_t alterations(const Run& run) {
  return static_cast<std::size_t>(std::ranges::count_if(run.trace().facts, [](const Fact& fact) {
    const auto* work = std::get_if<fact::Work>(&fact);
    return work != nullptr && work->kind == WorkKind::reduce_copy_out && work->reads == work->writes;
  }));
}

// How gradients of one layer are divided, and what its reduction is given.
void check_division(Rank& rank) {
  // 2051 has a bit more than f16, and 2052 is odd after two halvings: every division before a sum is rounded otherwise
  // than one after it.
  const int world = rank.world().size(), factor = rank.param<int>("factor");
  const DType reduce = *dtype_named(rank.param("reduce"));
  std::vector<std::vector<double>> by_rank;
  for (int r = 0; r < world; ++r) by_rank.push_back({2051.0 + 2 * r});
  Scenario scenario = one_layer({.given = {by_rank}, .policy = {.reduce = reduce}});
  fully_shard_plan(scenario.plan).gradient_divide_factor = factor;
  scenario.script.keep_tensors = true;
  const Run run = play(rank, scenario);
  if (adds_in_rank_order(rank)) gradient_of_one_layer(rank, run);

  const oracles::DivideFactors factors = oracles::divide_factors(factor != 0 ? factor : world);
  const bool in_f16 = reduce == DType::f16;
  const std::size_t divisions = in_f16 ? (factors.pre != 1 ? 1 : 0) + (factors.post != 1 ? 1 : 0) : 0;
  if (in_f16 || world > 1) CHECK(alterations(run) == divisions);  // one rank has no collective that could divide
  const ReduceOp op = in_f16 ? ReduceOp::sum : factor == 0 || factor == world ? ReduceOp::avg : ReduceOp::premul_sum;
  std::size_t reductions = 0;
  for (const Operand& operand : run.operands()) {
    if (operand.kind != CollectiveKind::reduce_scatter) continue;
    ++reductions;
    CHECK(operand.op == op);
    const double mine = oracles::rounded_to(reduce, by_rank[static_cast<std::size_t>(rank.index())].front());
    const double sent = oracles::rounded_to(reduce, in_f16 ? mine / factors.pre : mine);
    for (const double value : operand.in.to_doubles()) CHECK((value == sent || value == 0));
    CHECK(std::ranges::count(operand.in.to_doubles(), sent) == 8);
  }
  CHECK(reductions == (world > 1 ? 1 : 0));
}

}  // namespace

RANKED_TEST_CASE("extensions/division", clauses("EXT-25"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("gradients", "distinct", "large", "small"), each("reduce", "f32", "bf16", "f16"),
                 needs(Feature::mixed_precision)) {
  const Given given = given_to(rank.world().size(), rank.param("gradients"));
  const Run run = play(rank, divided(given, *dtype_named(rank.param("reduce"))));
  CHECK(gradient_of_one_layer(rank, run) == given.mean);
}

RANKED_TEST_CASE("extensions/division_by_a_factor", clauses("EXT-25"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("factor", 3, 16), each("reduce", "f32", "bf16", "f16"),
                 needs(Feature::mixed_precision, FullyShardFeature::gradient_divide_factor)) {
  const int world = rank.world().size(), factor = rank.param<int>("factor");
  std::vector<std::vector<double>> by_rank;
  for (int r = 0; r < world; ++r) by_rank.push_back({48.0 * (r + 1)});
  Scenario scenario = one_layer({.given = {by_rank}, .policy = {.reduce = dtype_named(rank.param("reduce"))}});
  fully_shard_plan(scenario.plan).gradient_divide_factor = factor;
  CHECK(gradient_of_one_layer(rank, play(rank, scenario)) == 24.0 * world * (world + 1) / factor);
}

RANKED_TEST_CASE("extensions/division_on_a_mesh", clauses("EXT-21", "EXT-25"), ranks(2, 4),
                 each("gradients", "distinct", "large", "small"), each("reduce", "f32", "bf16", "f16"),
                 needs(Feature::timeline, Feature::mixed_precision, Feature::replicated_mesh)) {
  const DType reduce = *dtype_named(rank.param("reduce"));
  const int world = rank.world().size(), shards = world / 2;
  const Given given = given_to(world, rank.param("gradients"));
  Scenario scenario = divided(given, reduce);
  scenario.plan.mesh = replicated(2, world);
  const Run run = play(rank, scenario);
  const auto judged = rank.under("EXT-25");
  CHECK(gradient_of_one_layer(rank, run) == given.mean);
  // With two ranks, no rank shards. With four ranks, ranks 0 and 1 shard together, and ranks 2 and 3. Ranks 0 and 2
  // hold the same rows, and ranks 1 and 3, too.
  const int column = rank.index() % shards, first = rank.index() - column;
  int scattered = 0, all_reduced = 0;
  for (const fact::Collective& call : run.iterations().front().collectives(ActionKind::backward)) {
    if (call.kind == CollectiveKind::all_gather) continue;
    CAPTURE(to_string(call.kind));
    const bool among_replicas = call.kind == CollectiveKind::all_reduce;
    (among_replicas ? all_reduced : scattered) += 1;
    {
      const auto judged_dtype = rank.under("EXT-21");
      CHECK(call.dtype == reduce);
    }
    CHECK(call.group == (among_replicas ? std::vector{column, column + shards} : std::vector{first, first + 1}));
  }
  CHECK(scattered == shards - 1);
  CHECK(all_reduced == 1);
}

// The factor names what the sum over all ranks is divided by, those that replicate included.
RANKED_TEST_CASE("extensions/factor_on_a_mesh", clauses("EXT-25"), ranks(2, 4), each("factor", 3, 16),
                 each("reduce", "f32", "bf16", "f16"),
                 needs(Feature::mixed_precision, Feature::replicated_mesh, FullyShardFeature::gradient_divide_factor)) {
  const int world = rank.world().size(), factor = rank.param<int>("factor");
  std::vector<std::vector<double>> by_rank;
  for (int r = 0; r < world; ++r) by_rank.push_back({48.0 * (r + 1)});
  Scenario scenario = one_layer({.given = {by_rank}, .policy = {.reduce = dtype_named(rank.param("reduce"))}});
  scenario.plan.mesh = replicated(2, world);
  fully_shard_plan(scenario.plan).gradient_divide_factor = factor;
  CHECK(gradient_of_one_layer(rank, play(rank, scenario)) == 24.0 * world * (world + 1) / factor);
}

RANKED_TEST_CASE("extensions/division_as_in_pytorch", clauses("EXT-42"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("factor", 0, 6), each("reduce", "f32", "bf16", "f16"),
                 needs(Feature::timeline, Feature::mixed_precision, FullyShardFeature::gradient_divide_factor),
                 tags("reference")) {
  check_division(rank);
}

// A sum that nothing divides, and of two ranks a mean. One rank has no other.
RANKED_TEST_CASE("extensions/division_as_in_pytorch", clauses("EXT-42"), ranks(2, 3, 4), more_ranks(5, 7, 8),
                 each("factor", 1, 2), each("reduce", "f32", "bf16", "f16"),
                 needs(Feature::timeline, Feature::mixed_precision, FullyShardFeature::gradient_divide_factor),
                 tags("reference")) {
  check_division(rank);
}

}  // namespace shardproof::extensions
