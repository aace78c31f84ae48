// The operands of a user's hook, and the use of its result.
#include <shardproof.hpp>

#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <vector>

#include "fixtures/oracles/rounding.hpp"
#include "harness/player/play.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/comm_hooks/gradients.hpp"
#include "suites/comm_hooks/scenarios.hpp"

namespace shardproof::comm_hooks {

using namespace suites;
using Catch::Matchers::ContainsSubstring;

namespace {

// The flat gradient of a unit: its parameters in order of registration, each from a multiple of `align` on, and zeros
// so that `divides` divides the whole.
std::vector<float> flat(const std::vector<NamedGradient>& gradients, const std::string& unit, bool wrapping,
                        std::size_t align, std::size_t divides) {
  std::vector<float> values;
  const auto pad = [&](std::size_t step) { values.resize((values.size() + step - 1) / step * step, 0); };
  for (const NamedGradient& gradient : gradients) {
    const bool is_in_net = is_at_or_under(gradient.name, "net");
    const bool is_meant = !wrapping || is_in_net == (unit == "net");
    if (!is_meant) continue;
    pad(align);
    for (const double value : gradient.values) values.push_back(static_cast<float>(value));
  }
  pad(divides);
  return values;
}

// Each of these units has one call.
void check_names(const std::vector<const Callback*>& calls, std::vector<std::string> units) {
  std::vector<std::string> called;
  for (const Callback* call : calls) called.push_back(call->name);
  std::ranges::sort(called);
  std::ranges::sort(units);
  REQUIRE(called == units);
}

}  // namespace

RANKED_TEST_CASE("comm_hooks/operands", clauses("CMH-3", "CMH-4", "CMH-16"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("wrapping", false, true),
                 each("orig", false, true), needs(Feature::timeline, FlatShardFeature::gradient_hooks),
                 needs_if("orig", true, FlatShardFeature::orig_params)) {
  const bool wrapping = rank.param<bool>("wrapping"), orig = rank.param<bool>("orig");
  const auto world = static_cast<std::size_t>(rank.world().size());
  Scenario scenario = with_calls_first(hooked_net(strategy(rank), wrapping), {registration(HookKind::plain)});
  flat_shard_plan(scenario.plan).use_orig_params = orig;
  const Run run = play_accepted(rank, scenario);
  const bool keeps_all = strategy(rank) == ShardStrategy::no_shard || world == 1;
  const auto judged = rank.under("CMH-3");
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    const auto gradients = local_gradients(run.scenario(), rank.index(), iteration);
    const auto calls = hook_calls(run, iteration);
    check_names(calls, units(wrapping));
    const auto judged_operands = rank.under("CMH-4");
    for (const Callback* call : calls) {
      CAPTURE(call->name);
      const std::size_t divides = keeps_all && !orig ? 1 : world;
      const std::vector<float> expected = flat(gradients, call->name, wrapping, orig ? 4 : 1, divides);
      REQUIRE(call->tensors.size() == (keeps_all ? 1 : 2));
      CHECK(first_difference(call->tensors[0],
                             Tensor::of<float>({static_cast<std::int64_t>(expected.size())}, expected)) == "");
      CHECK(std::ranges::any_of(expected, [](float value) { return value != 0; }));
      if (!keeps_all)
        CHECK(call->sizes[1] == TensorSize{DType::f32, {static_cast<std::int64_t>(expected.size() / world)}});
    }
  }
  check_sound_iterations(rank, run);
}

// The plan reduces in low precision: the hook gets rounded gradients, and the optimizer sees its result in f32.
RANKED_TEST_CASE("comm_hooks/operands_in_low_precision", clauses("CMH-3", "CMH-4", "CMH-5"), ranks(1, 2, 3),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("dtype", "f16", "bf16"),
                 needs(FlatShardFeature::gradient_hooks, Feature::mixed_precision)) {
  const DType low = rank.param("dtype") == "f16" ? DType::f16 : DType::bf16;
  Scenario scenario = with_calls_first(hooked_net(strategy(rank), true), {registration(HookKind::plain)});
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 4096};
  scenario.plan.mixed_precision.reduce = low;
  const Run run = play_accepted(rank, scenario);
  const bool keeps_all = strategy(rank) == ShardStrategy::no_shard || rank.world().size() == 1;
  const auto divides = static_cast<std::size_t>(keeps_all ? 1 : rank.world().size());
  std::int64_t rounded = 0;
  const auto judged = rank.under("CMH-4");
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    const auto gradients = local_gradients(run.scenario(), rank.index(), iteration);
    const auto calls = hook_calls(run, iteration);
    {
      const auto judged_calls = rank.under("CMH-3");
      check_names(calls, units(true));
    }
    for (const Callback* call : calls) {
      CAPTURE(call->name);
      std::vector<double> expected;
      for (const float value : flat(gradients, call->name, true, 1, divides)) {
        expected.push_back(oracles::rounded_to(low, value));
        rounded += expected.back() != value ? 1 : 0;
      }
      CHECK(call->tensors.at(0).dtype() == low);
      CHECK(call->tensors.at(0).to_doubles() == expected);
    }
    const auto judged_result = rank.under("CMH-5");
    for (const CapturedParameter& parameter : run.captures().at(static_cast<std::size_t>(iteration)).parameters) {
      if (parameter.shard.numel() > 0) CHECK(parameter.gradient.dtype() == DType::f32);
    }
  }
  CHECK(sum_over_ranks(rank, rounded) > 0);
}

RANKED_TEST_CASE("comm_hooks/result_used", clauses("CMH-5", "CMH-6"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), each("wrapping", false, true),
                 each("hook", "doubled", "sum"), needs(Feature::timeline, FlatShardFeature::gradient_hooks)) {
  const bool doubles = rank.param("hook") == "doubled";
  const bool wrapping = rank.param<bool>("wrapping");
  const Run run = play_accepted(rank, with_calls_first(hooked_net(strategy(rank), wrapping),
                                                       {registration(doubles ? HookKind::doubled : HookKind::sum)}));
  check_all_elements(rank, run);
  check_gradients(rank, run,
                  [doubles](std::span<const double> by_rank) { return doubles ? 2 * mean(by_rank) : sum(by_rank); });
  // The hook alone communicates: one reduction for each unit.
  const auto judged = rank.under("CMH-6");
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    const std::vector<Iteration> all = run.iterations();
    std::vector<std::string> reduced;
    for (const fact::Collective& call : all.at(static_cast<std::size_t>(iteration) + 1).collectives()) {
      if (call.kind != CollectiveKind::all_gather) reduced.push_back(call.tag);
    }
    std::vector<std::string> expected = rank.world().size() > 1 ? units(wrapping) : std::vector<std::string>{};
    std::ranges::sort(reduced);
    std::ranges::sort(expected);
    CHECK(reduced == expected);
  }
}

// A parameter steps by what the hook left.
RANKED_TEST_CASE("comm_hooks/step_by_result", clauses("CMH-5"), ranks(1, 2, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), needs(FlatShardFeature::gradient_hooks)) {
  Scenario scenario = with_calls_first(hooked_net(strategy(rank), true), {registration(HookKind::doubled)});
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 1.0 / 4};
  scenario.script.segments.back() = {.iterations = 3,
                                     .body = {{.kind = ActionKind::forward},
                                              {.kind = ActionKind::backward},
                                              {.kind = ActionKind::capture},
                                              {.kind = ActionKind::step},
                                              {.kind = ActionKind::capture},
                                              {.kind = ActionKind::zero_grad}}};
  const Run run = play_accepted(rank, scenario);
  REQUIRE(run.captures().size() == 6);
  for (std::size_t step = 0; step < 3; ++step) {
    CAPTURE(step);
    std::int64_t moved = 0;
    for (std::size_t p = 0; p < run.captures()[2 * step].parameters.size(); ++p) {
      const CapturedParameter &before = run.captures()[2 * step].parameters[p],
                              &after = run.captures()[2 * step + 1].parameters[p];
      if (before.shard.numel() == 0) continue;
      REQUIRE(before.gradient.defined());
      REQUIRE(before.gradient.dtype() == DType::f32);
      std::vector<float> expected;
      const auto value = before.shard.values<float>(), gradient = before.gradient.values<float>();
      for (std::size_t i = 0; i < value.size(); ++i) expected.push_back(value[i] - gradient[i] / 4);
      CHECK(first_difference(after.shard, Tensor::of<float>(after.shard.shape(), expected)) == "");
      if (after.shard != before.shard) ++moved;
    }
    CHECK(sum_over_ranks(rank, moved) > 0);
  }
}

// The first iteration leaves its gradients: the second hands over the sum of both.
RANKED_TEST_CASE("comm_hooks/unsynced", clauses("CMH-7"), ranks(1, 2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"),
                 needs(FlatShardFeature::gradient_hooks, Feature::gradient_accumulation)) {
  using enum ActionKind;
  Scenario scenario = with_calls_first(hooked_net(strategy(rank), true), {registration(HookKind::plain)});
  const auto sync = [](bool on) { return Action{.kind = set_requires_gradient_sync, .value = on}; };
  Script::Segment unsynced{.body = {sync(false), {.kind = forward}, {.kind = backward}}};
  Script::Segment synced{
      .body = {sync(true), {.kind = forward}, {.kind = backward}, {.kind = capture}, {.kind = zero_grad}}};
  auto& segments = scenario.script.segments;
  segments.pop_back();
  for (int round = 0; round < 3; ++round) segments.insert(segments.end(), {unsynced, synced});
  const Run run = play_accepted(rank, scenario);
  const bool keeps_all = strategy(rank) == ShardStrategy::no_shard || rank.world().size() == 1;
  const auto divides = static_cast<std::size_t>(keeps_all ? 1 : rank.world().size());
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    CHECK(hook_calls(run, 2 * round).empty());
    const auto calls = hook_calls(run, 2 * round + 1);
    check_names(calls, units(true));
    const auto first = local_gradients(run.scenario(), rank.index(), 2 * round),
               second = local_gradients(run.scenario(), rank.index(), 2 * round + 1);
    for (const Callback* call : calls) {
      CAPTURE(call->name);
      std::vector<float> expected = flat(first, call->name, true, 1, divides);
      const std::vector<float> later = flat(second, call->name, true, 1, divides);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += later[i];
      CHECK(first_difference(call->tensors.at(0),
                             Tensor::of<float>({static_cast<std::int64_t>(expected.size())}, expected)) == "");
    }
  }
}

// The rank whose hook fails goes to a barrier, while the other ranks are in a backward that needs it. The harness
// reports that to all ranks.
RANKED_TEST_CASE("comm_hooks/failing_hook", clauses("CMH-15"), ranks(2, 3, 4),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), needs(FlatShardFeature::gradient_hooks)) {
  skip_unless_calls_are_compared(rank);
  const int failing = rank.world().size() - 1;
  Action failing_hook = registration(HookKind::plain);
  failing_hook.hook->fails_on = {failing};
  const Scenario scenario = with_calls_first(hooked_net(strategy(rank), true), {failing_hook});
  std::string text;
  bool has_failed = false;
  try {
    try {
      play(rank, scenario);
    } catch (const player::SubjectError& error) {
      has_failed = true;
      CHECK(error.call() == "backward");
      CHECK_THAT(error.reason(), ContainsSubstring("fails on rank " + std::to_string(failing) + ", as planned"));
    }
    if (rank.index() == failing) rank.world().barrier("after the failure");
  } catch (const Mismatch& error) {
    text = error.what();
  }
  CHECK(has_failed == (rank.index() == failing));
  CHECK_THAT(text, ContainsSubstring("after the failure"));
}

}  // namespace shardproof::comm_hooks
