// Does an engine with flat parameters round where the plan says, and nowhere else?
#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/flat_chain.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

Scenario rounding(Rank& rank) {
  Scenario scenario = flat_chain(strategy(rank), {{ActionKind::forward},
                                                  {ActionKind::backward},
                                                  {ActionKind::capture},
                                                  {ActionKind::step},
                                                  {ActionKind::capture},
                                                  {ActionKind::zero_grad}});
  scenario.plan.mixed_precision = {.param = dtype_of(rank, "param"), .reduce = dtype_of(rank, "reduce")};
  // Small fractions: integers would leave the range of f16.
  scenario.model.init_divisor = scenario.script.input_divisor = 4;
  scenario.plan.optimizer.rate = 0.0625;
  return scenario;
}

void check_precision(Rank& rank) {
  const Run run = play_accepted(rank, rounding(rank));
  const DType param = *run.scenario().plan.mixed_precision.param;
  const DType reduce = run.scenario().plan.mixed_precision.reduce.value_or(param);
  check_training(rank, run, oracles::Arithmetic::f32, {}, Moves::some_parameter);
  check_sound(rank, run);
  check_nothing_else_is_communicated(rank, run);
  for (const Capture& captured : run.captures()) {
    for (const CapturedParameter& held : captured.parameters) {
      CAPTURE(held.name);
      {
        const auto judged = rank.under("OVL-35");
        CHECK(held.shard.dtype() == DType::f32);
      }
      const auto judged = rank.under("OVL-10");
      REQUIRE(held.gradient.defined());
      CHECK(held.gradient.dtype() == DType::f32);
    }
  }
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_nothing_is_left(rank, run, iteration.index());
    const auto judged = rank.under("OVL-43");
    for (const fact::Collective& call : iteration.collectives()) {
      CAPTURE(call.tag);
      CHECK(call.dtype == (call.kind == CollectiveKind::all_gather ? param : reduce));
    }
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/flat_precision", clauses("OVL-7", "OVL-10", "OVL-12", "OVL-15", "OVL-16", "OVL-43"),
                 ranks(1, 2, 3), more_ranks(4, 5, 7, 8), on_engines("flat_shard"),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), each("param", "bf16", "f16"),
                 each("reduce", "none", "f32"), needs(Feature::timeline, Feature::mixed_precision)) {
  check_precision(rank);
}

RANKED_TEST_CASE("overlap/flat_precision_of_copies", clauses("OVL-7", "OVL-10", "OVL-12", "OVL-15", "OVL-16", "OVL-43"),
                 ranks(4), on_engines("flat_shard"), each("strategy", "hybrid"), each("param", "bf16", "f16"),
                 each("reduce", "none", "f32"),
                 needs(Feature::timeline, Feature::mixed_precision, Feature::replicated_mesh)) {
  check_precision(rank);
}

}  // namespace shardproof::overlap
