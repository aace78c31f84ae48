// Does an engine that overlaps still compute the right thing?
#include <utility>

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

// A piece of work that leaves what it should write ends the play.
Run play_closely(Rank& rank, Scenario scenario) {
  scenario.device.hide_undeclared_memory = true;
  return play_accepted(rank, scenario);
}

// On dense inputs: a gradient near zero would make rounding a matter of sign, and Adam's step as large as any other.
Scenario dense_mlp(Optimizer optimizer, bool reshard_after_forward, int iterations) {
  Scenario scenario = small_mlp(optimizer, reshard_after_forward, iterations);
  scenario.script.given.clear();
  scenario.script.input_divisor = 1;
  scenario.model.loss.dot_seed = 7;
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("overlap/values_exact", clauses("OVL-10"), ranks(1, 2, 3, 4), each("reshard", false, true)) {
  // A single iteration is exact in f32 at any world size, and three are where the mean divides by a power of two.
  const int iterations = mean_rounds(rank) ? 1 : 3;
  const Run run = play(rank, small_mlp({.rate = 0.25}, rank.param<bool>("reshard"), iterations));
  check_training(rank, run, oracles::Arithmetic::f32, {});
}

RANKED_TEST_CASE("overlap/values_adamw", clauses("OVL-10"), ranks(1, 2, 3, 4), each("reshard", false, true)) {
  // Five steps of 1e-2 in single precision on values up to some hundreds; a wrong divisor or a lost gradient is off by
  // far more.
  const Tolerance tolerance{.loss = 1e-2, .gradient = 1e-2, .parameter = 1e-5};
  const Optimizer adamw{.kind = OptimizerKind::adamw, .rate = 1e-2, .weight_decay = 1e-2};
  const Run run = play(rank, dense_mlp(adamw, rank.param<bool>("reshard"), 5));
  check_training(rank, run, oracles::Arithmetic::f64, tolerance);
}

RANKED_TEST_CASE("overlap/values_adam", clauses("OVL-10"), ranks(1, 2, 3, 4)) {
  // As above; the decay goes into the gradient here, and so into both moments.
  const Tolerance tolerance{.loss = 1e-2, .gradient = 1e-2, .parameter = 1e-5};
  const Optimizer adam{.kind = OptimizerKind::adam, .rate = 1e-2, .weight_decay = 0.5};
  const Run run = play(rank, dense_mlp(adam, true, 5));
  check_training(rank, run, oracles::Arithmetic::f64, tolerance);
}

RANKED_TEST_CASE("overlap/declared_memory", clauses("OVL-28"), ranks(1, 2, 3, 4), each("reshard", false, true),
                 needs(Feature::timeline, Feature::hidden_memory)) {
  // Races are found in what work declares; so what it declares must be all that it touches.
  const Run run = play_closely(rank, three_iterations({}, {}, rank.param<bool>("reshard")));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
}

RANKED_TEST_CASE("overlap/declared_memory_of_parts", clauses("OVL-28"), ranks(4), also_with_discarded_module(),
                 needs(Feature::timeline, FullyShardFeature::reshard_to_size, Feature::hidden_memory)) {
  Scenario scenario = three_iterations({}, {}, true);
  for (WrapGroup& group : fully_shard_plan(scenario.plan).wrap) {
    group.reshard_after_forward = {.kind = ReshardAfterForward::Kind::size, .size = 2};
  }
  check_training(rank, play_closely(rank, std::move(scenario)), oracles::Arithmetic::f32, {});
}

}  // namespace shardproof::overlap
