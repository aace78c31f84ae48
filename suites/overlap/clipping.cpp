// One gradient norm over all shards of all ranks.
#include <cmath>
#include <limits>

#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

double norm_type(const Rank& rank) {
  return rank.param("norm") == "inf" ? std::numeric_limits<double>::infinity() : rank.param<double>("norm");
}

Scenario clipping(double max_norm, double type) {
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin() + 2, {.kind = ActionKind::clip_grad_norm, .max_norm = max_norm, .norm_type = type});
  return scenario;
}

// Over the shards of all ranks.
double norm_of(Rank& rank, const Capture& captured, double type) {
  Tensor mine = Tensor::host(DType::f64, {1});
  double& sum = mine.values<double>()[0];
  for (const CapturedParameter& held : captured.parameters) {
    if (!held.gradient.defined()) continue;
    for (const double value : held.gradient.to_doubles()) {
      sum = std::isinf(type) ? std::max(sum, std::abs(value)) : sum + std::pow(std::abs(value), type);
    }
  }
  const double all =
      rank.world().all_reduce(mine, std::isinf(type) ? ReduceOp::max : ReduceOp::sum).values<double>()[0];
  return std::isinf(type) ? all : std::pow(all, 1 / type);
}

}  // namespace

// With 3 rows in the last layer, one of four ranks holds none of it.
RANKED_TEST_CASE("overlap/clip_grad_norm", clauses("OVL-10", "OVL-15", "OVL-41"), ranks(1, 2, 3, 4),
                 each("norm", "1", "2", "3", "inf"), needs(Feature::timeline, Feature::clip_grad_norm)) {
  const double type = norm_type(rank), max_norm = 2;
  const Run run = play(rank, clipping(max_norm, type));
  // The norm is a sum of many rounded terms: a few units in the last place of the gradient.
  check_training(rank, run, oracles::Arithmetic::f64, {.loss = 1e-2, .gradient = 1e-4, .parameter = 1e-4});
  check_sound(rank, run);
  const auto judged = rank.under("OVL-41");
  REQUIRE(run.captures().size() == 3);
  for (const Capture& captured : run.captures()) CHECK(std::abs(norm_of(rank, captured, type) - max_norm) < 1e-3);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_count(iteration, CollectiveKind::all_reduce, rank.world().size() > 1 ? 1 : 0);
  }
  check_all_in_iterations(run, CollectiveKind::all_reduce);
}

RANKED_TEST_CASE("overlap/clip_grad_norm_mesh", clauses("OVL-10", "OVL-15", "OVL-41"), ranks(4),
                 each("norm", "1", "2", "3", "inf"),
                 needs(Feature::timeline, Feature::clip_grad_norm, Feature::replicated_mesh)) {
  Scenario scenario = clipping(2, norm_type(rank));
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  const Run run = play(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f64, {.loss = 1e-2, .gradient = 1e-4, .parameter = 1e-4});
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-41");
    check_count(iteration, CollectiveKind::all_reduce, ActionKind::clip_grad_norm, 1);
  }
}

RANKED_TEST_CASE("overlap/clip_beside_ignored", clauses("OVL-10", "OVL-41"), ranks(1, 2, 3, 4),
                 needs(Feature::clip_grad_norm, Feature::ignored_parameters)) {
  Scenario scenario = clipping(2, 2);
  fully_shard_plan(scenario.plan).ignored_parameters = {"l0.bias"};
  check_training(rank, play(rank, scenario), oracles::Arithmetic::f64,
                 {.loss = 1e-2, .gradient = 1e-4, .parameter = 1e-4});
}

RANKED_TEST_CASE("overlap/small_gradients_stay", clauses("OVL-10", "OVL-41"), ranks(1, 2, 3, 4),
                 each("norm", "1", "2", "3", "inf"), needs(Feature::clip_grad_norm)) {
  check_training(rank, play(rank, clipping(1e6, norm_type(rank))), oracles::Arithmetic::f32,
                 exact_unless_mean_rounds(rank));
}

}  // namespace shardproof::overlap
