// Hooks instead of the engine's own reductions.
#include <shardproof.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fixtures/oracles/rounding.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/own_gradients.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

namespace {

constexpr std::int64_t state = 1234;

Action registration(HookKind kind, bool refused = false) {
  return {.kind = ActionKind::register_hook, .hook = Hook{.kind = kind, .state = state, .refused = refused}};
}

// Iterations of `gradients_only` in three buckets, after an iteration of these calls.
Scenario hooked(std::vector<Action> calls) {
  Scenario scenario = exact_net(true, gradients_only());
  scenario.script.segments.front().iterations = iterations;
  scenario.script.keep_tensors = true;
  scenario.script.segments.insert(scenario.script.segments.begin(), {.body = std::move(calls)});
  return scenario;
}

std::vector<const Callback*> hook_calls(const Run& run, int iteration) {
  return run.callbacks({.kind = CallbackKind::gradient_hook, .iteration = iteration + 1});
}

}  // namespace

RANKED_TEST_CASE("replicate/hook_operands", clauses("REP-3", "REP-4", "REP-9"), ranks(1, 2, 3, 4),
                 needs(Feature::timeline, ReplicateFeature::gradient_hooks)) {
  const Run run = play_accepted(rank, hooked({registration(HookKind::plain)}));
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    std::vector<NamedGradient> left = own_gradients(run.scenario(), rank.index(), iteration + 1);
    const auto calls = hook_calls(run, iteration);
    const auto judged = rank.under("REP-9");
    REQUIRE_FALSE(calls.empty());
    for (const Callback* call : calls) {
      CAPTURE(call->name);
      CHECK(call->during == "backward");
      CHECK(std::get<GradientHookCall>(call->detail).state == static_cast<std::uint64_t>(state));
      REQUIRE(call->tensors.size() == 1);
      CHECK(call->tensors[0].dtype() == DType::f32);
      take_parameters(call->tensors[0], left);
    }
    CHECK(left.empty());
  }
  check_no_race(rank, run);
  check_same_order(rank, run);
}

RANKED_TEST_CASE("replicate/hook_result", clauses("REP-4", "REP-9"), ranks(1, 2, 3, 4),
                 each("hook", "plain", "doubled", "sum"), each("gradients", "copies", "views"),
                 needs(Feature::timeline, ReplicateFeature::gradient_hooks),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  const std::string& hook = rank.param("hook");
  const HookKind kind = hook == "plain" ? HookKind::plain : hook == "doubled" ? HookKind::doubled : HookKind::sum;
  Scenario scenario = hooked({registration(kind)});
  if (rank.param("gradients") == "views") replicate_plan(scenario.plan).gradients = BucketGradients::views;
  const Run run = play_accepted(rank, scenario);
  check_gradients(rank, run, [kind](std::span<const double> by_rank) {
    return kind == HookKind::sum ? sum(by_rank) : (kind == HookKind::doubled ? 2 : 1) * mean(by_rank);
  });
  check_no_race(rank, run);
  // The hook alone communicates.
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    const std::vector<Iteration> all = run.iterations();
    const std::size_t calls = bucket_calls(all.at(static_cast<std::size_t>(iteration) + 1)).size();
    CHECK(calls == (rank.world().size() > 1 ? hook_calls(run, iteration).size() : 0));
  }
}

RANKED_TEST_CASE("replicate/hook_without_sync", clauses("REP-6", "REP-9"), ranks(1, 2, 3),
                 needs(ReplicateFeature::gradient_hooks, Feature::gradient_accumulation)) {
  Scenario scenario = hooked({registration(HookKind::plain)});
  scenario.script.segments.back() = {.iterations = 3,
                                     .body = {sync(false),
                                              {ActionKind::forward},
                                              {ActionKind::backward},
                                              sync(true),
                                              {ActionKind::forward},
                                              {ActionKind::backward},
                                              {ActionKind::zero_grad}}};
  const Run run = play_accepted(rank, scenario);
  for (int iteration = 0; iteration < 3; ++iteration) {
    CAPTURE(iteration);
    const auto judged = rank.under("REP-6", "REP-9");
    // Both forwards have the same input.
    std::vector<NamedGradient> left = own_gradients(run.scenario(), rank.index(), iteration + 1);
    for (NamedGradient& gradient : left)
      std::ranges::transform(gradient.values, gradient.values.begin(), [](double value) { return 2 * value; });
    for (const Callback* call : hook_calls(run, iteration)) take_parameters(call->tensors.at(0), left);
    CHECK(left.empty());
  }
}

RANKED_TEST_CASE("replicate/compressing_hook", clauses("REP-4", "REP-10"), ranks(1, 2, 3, 4),
                 each("dtype", "f16", "bf16"), each("gradients", "copies", "views"),
                 needs(Feature::timeline, ReplicateFeature::compressing_hooks),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  skip_unless_sums_have_an_order(rank);
  const DType low = rank.param("dtype") == "f16" ? DType::f16 : DType::bf16;
  Scenario scenario = hooked({registration(low == DType::f16 ? HookKind::fp16_compress : HookKind::bf16_compress)});
  // Gradients are fractions of large integers: in f32 they are exact, in the low precisions they are not.
  scenario.script.given.clear();
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 4096};
  if (rank.param("gradients") == "views") replicate_plan(scenario.plan).gradients = BucketGradients::views;
  const Run run = play_accepted(rank, scenario);
  std::int64_t rounded = 0;
  check_gradients(rank, run, [&](std::span<const double> by_rank) {
    double total = 0;
    for (std::size_t each = 0; each < by_rank.size(); ++each) {
      const double operand =
          oracles::rounded_to(low, oracles::rounded_to(low, by_rank[each]) / static_cast<double>(by_rank.size()));
      total = each == 0 ? operand : oracles::rounded_to(low, total + operand);
    }
    if (total != mean(by_rank)) ++rounded;
    return total;
  });
  CHECK(sum_over_ranks(rank, rounded) > 0);
  check_no_race(rank, run);
  check_memory_classes(rank, run);
  for (const Iteration& iteration : run.iterations()) {
    CAPTURE(iteration.index());
    for (const fact::Collective& call : bucket_calls(iteration)) CHECK(call.dtype == low);
    if (iteration.index() > 0 && rank.world().size() > 1) CHECK_FALSE(bucket_calls(iteration).empty());
  }
}

namespace {

// A hook counts from its registration on, also between iterations.
void check_late_hook(Rank& rank, HookKind kind, DType low) {
  Scenario scenario = exact_net(true, gradients_only());
  if (rank.param("step") == "compiled") replicate_plan(scenario.plan).compile.emplace();
  std::vector<Action> then = gradients_only();
  then.insert(then.begin(), registration(kind));
  scenario.script.segments.push_back({.body = std::move(then)});
  scenario.script.segments.push_back({.iterations = 2, .body = gradients_only()});
  const Run run = play_accepted(rank, scenario);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const std::vector<fact::Collective> calls = bucket_calls(iteration);
    CHECK_FALSE(calls.empty());
    for (const fact::Collective& call : calls) CHECK(call.dtype == (iteration.index() < 3 ? DType::f32 : low));
  }
}

}  // namespace

RANKED_TEST_CASE("replicate/late_hook", clauses("REP-10"), ranks(2, 3), each("step", "eager", "compiled"),
                 needs(Feature::timeline, ReplicateFeature::compressing_hooks),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  check_late_hook(rank, HookKind::bf16_compress, DType::bf16);
}

RANKED_TEST_CASE("replicate/late_fp16_hook", clauses("REP-10"), ranks(2), each("step", "eager", "compiled"),
                 needs(Feature::timeline, ReplicateFeature::compressing_hooks),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  check_late_hook(rank, HookKind::fp16_compress, DType::f16);
}

// After two iterations the engine takes a hook, and refuses another one, as before the first.
RANKED_TEST_CASE("replicate/late_user_hook", clauses("REP-9", "REP-11"), ranks(1, 2, 3),
                 needs(ReplicateFeature::gradient_hooks)) {
  Scenario scenario = exact_net(true, gradients_only());
  scenario.script.segments = {
      {.iterations = 2, .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}}},
      {.body = {registration(HookKind::doubled), registration(HookKind::plain, true)}},
      {.iterations = 3, .body = gradients_only()}};
  const Run run = play_accepted(rank, scenario);
  check_gradients(rank, run, [](std::span<const double> by_rank) { return 2 * mean(by_rank); });
  for (int iteration = 0; iteration < 5; ++iteration) {
    CAPTURE(iteration);
    const auto judged = rank.under("REP-9");
    CHECK(hook_calls(run, iteration).empty() == (iteration < 2));
  }
}

RANKED_TEST_CASE("replicate/second_hook", clauses("REP-11"), ranks(1, 2, 3),
                 each("second", "doubled", "not_callable", "fp16_compress"),
                 needs(ReplicateFeature::gradient_hooks, ReplicateFeature::compressing_hooks)) {
  const std::string& second = rank.param("second");
  const HookKind kind = second == "doubled"
                            ? HookKind::doubled
                            : (second == "not_callable" ? HookKind::not_callable : HookKind::fp16_compress);
  const Run run = play_accepted(rank, hooked({registration(HookKind::plain), registration(kind, true)}));
  check_gradients(rank, run, mean);
  for (int iteration = 0; iteration < iterations; ++iteration) CHECK_FALSE(hook_calls(run, iteration).empty());
}

// A refused registration leaves no hook, and the next registration counts as the first.
RANKED_TEST_CASE("replicate/refused_hook", clauses("REP-11"), ranks(1, 2, 4), each("then", "nothing", "doubled"),
                 needs(ReplicateFeature::gradient_hooks)) {
  const bool registers = rank.param("then") == "doubled";
  std::vector<Action> calls{registration(HookKind::not_callable, true)};
  if (registers) calls.push_back(registration(HookKind::doubled));
  const Run run = play_accepted(rank, hooked(calls));
  check_gradients(rank, run, [&](std::span<const double> by_rank) { return (registers ? 2 : 1) * mean(by_rank); });
  for (int iteration = 0; iteration < iterations; ++iteration) CHECK(hook_calls(run, iteration).empty() == !registers);
}

}  // namespace shardproof::replicate
