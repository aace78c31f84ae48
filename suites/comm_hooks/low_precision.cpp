// The engine's own hooks that reduce in low precision.
#include <shardproof.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/oracles/rounding.hpp"
#include "harness/scenario/formula.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/comm_hooks/gradients.hpp"
#include "suites/comm_hooks/scenarios.hpp"

namespace shardproof::comm_hooks {

using namespace suites;

namespace {

// Every value that an engine holds in the low precision is rounded.
Combine in(DType low) {
  return [low](std::span<const double> by_rank) {
    const Division steps = division(static_cast<int>(by_rank.size()));
    double total = 0;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const double operand = oracles::rounded_to(low, oracles::rounded_to(low, by_rank[rank]) / steps.before);
      total = rank == 0 ? operand : oracles::rounded_to(low, total + operand);
    }
    return oracles::rounded_to(low, total / steps.after);
  };
}

// Gradients are fractions of large integers: in f32 they are exact, in the low precisions they are not.
Scenario rounded_net(Rank& rank, std::vector<Action> calls_first) {
  Scenario scenario = hooked_net(strategy(rank), rank.param<bool>("wrapping"));
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 4096};
  return with_calls_first(std::move(scenario), std::move(calls_first));
}

constexpr double largest_f16 = 65504;

// Inputs whose gradients are alike on all ranks, so that they add up. No element of a gradient is larger than 640 times
// `offset`.
Scenario large_gradients(Rank& rank, int offset) {
  Scenario scenario = hooked_net(strategy(rank), false);
  for (std::uint32_t iteration = 0; iteration <= iterations; ++iteration) {
    std::vector<std::vector<double>>& of_ranks = scenario.script.given.emplace_back();
    for (int each = 0; each < rank.world().size(); ++each) {
      std::vector<double>& values =
          of_ranks.emplace_back(scenario.script.input.at(0) * scenario.script.input.at(1), offset);
      for (std::uint32_t i = 0; double& value : values)
        value += formula::small_integer(1000 + 100 * iteration + static_cast<std::uint32_t>(each), i++);
    }
  }
  return with_calls_first(std::move(scenario), {registration(HookKind::fp16_compress)});
}

void check_compresses(Rank& rank, HookKind hook, DType low) {
  skip_unless_sums_have_an_order(rank);
  const Run run = play_accepted(rank, rounded_net(rank, {registration(hook)}));
  check_all_elements(rank, run);
  std::int64_t rounded = 0;
  check_gradients(rank, run, [&](std::span<const double> by_rank) {
    const double value = in(low)(by_rank);
    if (value != mean(by_rank)) ++rounded;
    return value;
  });
  const auto judged = rank.under("CMH-13");
  CHECK(sum_over_ranks(rank, rounded) > 0);
  const auto judged_dtypes = rank.under("CMH-14");
  std::size_t reductions = 0;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const std::vector<Iteration> all = run.iterations();
    for (const fact::Collective& call : all.at(static_cast<std::size_t>(iteration) + 1).collectives()) {
      CHECK(call.dtype == (call.kind == CollectiveKind::all_gather ? DType::f32 : low));
      if (call.kind != CollectiveKind::all_gather) ++reductions;
    }
  }
  if (rank.world().size() > 1)
    CHECK(reductions == units(rank.param<bool>("wrapping")).size() * static_cast<std::size_t>(iterations));
  check_sound_iterations(rank, run);
}

}  // namespace

RANKED_TEST_CASE("comm_hooks/fp16_hook", clauses("CMH-13", "CMH-14", "CMH-16"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("wrapping", false, true),
                 needs(Feature::timeline, FlatShardFeature::compressing_hooks),
                 seed("test_fsdp_comm_hooks.py::test_fp16_hook",
                      each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("wrapping", false, true))) {
  check_compresses(rank, HookKind::fp16_compress, DType::f16);
}

RANKED_TEST_CASE("comm_hooks/bf16_hook", clauses("CMH-13", "CMH-14", "CMH-16"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("wrapping", false, true),
                 needs(Feature::timeline, FlatShardFeature::compressing_hooks),
                 seed("test_fsdp_comm_hooks.py::test_bf16_hook",
                      each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("wrapping", false, true))) {
  check_compresses(rank, HookKind::bf16_compress, DType::bf16);
}

// Gradients are so large that a sum over all ranks has no f16. The first division keeps each sum within f16.
RANKED_TEST_CASE("comm_hooks/fp16_hook_of_large_gradients", clauses("CMH-13"), ranks(2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"),
                 needs(FlatShardFeature::compressing_hooks)) {
  // The sum of all ranks is about 120,000, and half of it about 60,000.
  const Run run = play_accepted(rank, large_gradients(rank, 192 / rank.world().size()));
  std::int64_t too_large = 0;
  check_gradients(rank, run, [&](std::span<const double> by_rank) {
    if (std::abs(sum(by_rank)) > largest_f16) ++too_large;
    const double value = in(DType::f16)(by_rank);
    REQUIRE(std::isfinite(value));
    return value;
  });
  CHECK(sum_over_ranks(rank, too_large) > 0);
}

RANKED_TEST_CASE("comm_hooks/compressed_later", clauses("CMH-14"), ranks(2, 3),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"),
                 needs(Feature::timeline, FlatShardFeature::compressing_hooks)) {
  const Run run = play_accepted(
      rank, with_call_in_third_iteration(hooked_net(strategy(rank), true), registration(HookKind::bf16_compress)));
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    std::size_t reductions = 0;
    for (const fact::Collective& call : iteration.collectives(ActionKind::backward)) {
      if (call.kind == CollectiveKind::all_gather) continue;
      CHECK(call.dtype == (iteration.index() < 2 ? DType::f32 : DType::bf16));
      ++reductions;
    }
    CHECK(reductions == units(true).size());
  }
}

// A compressing hook does what a plan does that reduces in this precision.
RANKED_TEST_CASE("comm_hooks/as_mixed_precision", clauses("CMH-13"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("wrapping", false, true),
                 each("dtype", "f16", "bf16"), needs(FlatShardFeature::compressing_hooks, Feature::mixed_precision)) {
  const bool is_f16 = rank.param("dtype") == "f16";
  const Run hooked = play_accepted(
      rank, rounded_net(rank, {registration(is_f16 ? HookKind::fp16_compress : HookKind::bf16_compress)}));
  Scenario mixed = rounded_net(rank, {{.kind = ActionKind::zero_grad}});
  mixed.plan.mixed_precision.reduce = is_f16 ? DType::f16 : DType::bf16;
  const Run reduced = play_accepted(rank, mixed);
  REQUIRE(hooked.captures().size() == reduced.captures().size());
  std::size_t compared = 0;
  for (std::size_t i = 0; i < hooked.captures().size(); ++i) {
    for (std::size_t p = 0; p < hooked.captures()[i].parameters.size(); ++p) {
      CHECK(hooked.captures()[i].parameters[p].gradient == reduced.captures()[i].parameters[p].gradient);
      ++compared;
    }
  }
  CHECK(compared > 0);
}

}  // namespace shardproof::comm_hooks
