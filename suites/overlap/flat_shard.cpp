// Communication must overlap with computation on an engine with flat parameters: the seed's stack, and stacks of any
// durations.
#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fixtures/oracles/flat_overlap.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/times.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

constexpr int stack_iterations = 4;

const oracles::FlatStack::Layer seed_layer{
    .forward = 25'000'000, .backward = 50'000'000, .all_gather = 10'000'000, .reduction = 10'000'000};

oracles::FlatStack seed_of_flat_layers(Rank& rank) { return {.layers = {3, seed_layer}, .world = rank.world().size()}; }

// Each layer is in its own block, which is a unit. The root has no parameters.
Scenario scenario_of(const oracles::FlatStack& stack) {
  Scenario scenario;
  FlatShardPlan& plan = flat_shard_plan(scenario.plan);
  const CollectiveKind reduction =
      stack.strategy == ShardStrategy::no_shard ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter;
  for (std::size_t i = 0; i < stack.layers.size(); ++i) {
    const oracles::FlatStack::Layer& layer = stack.layers[i];
    const std::string name = std::to_string(i);
    scenario.model.root.children.push_back({.name = name,
                                            .children = {{.name = "linear",
                                                          .kind = ModuleKind::linear,
                                                          .in_features = 4,
                                                          .out_features = 4,
                                                          .bias = false,
                                                          .forward_sleep = layer.forward,
                                                          .backward_sleep = layer.backward},
                                                         {.name = "relu", .kind = ModuleKind::relu}}});
    plan.wrap.push_back(name);
    scenario.costs.tagged_collectives[{CollectiveKind::all_gather, name}] = layer.all_gather;
    scenario.costs.tagged_collectives[{reduction, name}] = layer.reduction;
  }
  plan.wrap.emplace_back("");
  plan.strategy = stack.strategy;
  plan.backward_prefetch = stack.backward_prefetch;
  plan.forward_prefetch = stack.forward_prefetch;
  plan.limit_all_gathers = stack.limit_all_gathers;
  scenario.script.input = {2, 4};
  scenario.script.segments = {
      {.iterations = stack_iterations, .body = {{.kind = ActionKind::forward}, {.kind = ActionKind::backward}}}};
  return scenario;
}

void check_times(const Run& run, const oracles::FlatStack& stack) {
  const std::vector<oracles::FlatIteration> expected = oracles::flat_iterations(stack, stack_iterations);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_time(iteration, "forward", iteration.forward(), Limit::exactly,
               expected.at(static_cast<std::size_t>(iteration.index())).forward);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly,
               expected.at(static_cast<std::size_t>(iteration.index())).forward_backward);
  }
}

// The calls that the host issued, in order. Several pieces of work of one layer count once.
std::vector<std::string> calls(const Iteration& iteration) {
  constexpr std::string_view layers_end = ".linear";
  std::vector<std::string> calls;
  const auto add = [&](const std::string& kind, const std::string& layer) {
    const std::string call = kind + " " + layer;
    if (calls.empty() || calls.back() != call) calls.push_back(call);
  };
  for (const Fact& fact : iteration.facts()) {
    if (const auto* call = std::get_if<fact::Collective>(&fact))
      add(call->kind == CollectiveKind::all_gather ? "gather" : "reduction", call->tag);
    const auto* work = std::get_if<fact::Work>(&fact);
    if (work == nullptr || !work->label.ends_with(layers_end)) continue;
    const std::string layer = work->label.substr(0, work->label.size() - layers_end.size());
    if (work->kind == WorkKind::forward) add("forward", layer);
    if (work->kind == WorkKind::backward) add("backward", layer);
  }
  return calls;
}

// The most units that are whole at one time of the forward: gathered, or being gathered, and not yet computed.
std::size_t most_whole_units(const Iteration& iteration) {
  std::vector<Nanoseconds> gathered, computed;
  for (const Fact& fact : iteration.facts()) {
    if (const auto* mark = std::get_if<fact::Mark>(&fact); mark != nullptr && mark->text.ends_with("forward end"))
      break;
    if (const auto* call = std::get_if<fact::Collective>(&fact)) gathered.push_back(call->start);
    const auto* work = std::get_if<fact::Work>(&fact);
    if (work != nullptr && work->kind == WorkKind::forward && work->label.ends_with("linear"))
      computed.push_back(work->end);
  }
  std::size_t most = 0;
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    const auto done =
        static_cast<std::size_t>(std::ranges::count_if(computed, [&](Nanoseconds end) { return end <= gathered[i]; }));
    most = std::max(most, i + 1 - std::min(done, i + 1));
  }
  return most;
}

}  // namespace

RANKED_TEST_CASE("overlap/training_overlap", clauses("OVL-1", "OVL-2", "OVL-3", "OVL-4", "OVL-6", "OVL-7"),
                 ranks(1, 2, 3, 4), on_engines("flat_shard"),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), needs(Feature::timeline)) {
  oracles::FlatStack stack = seed_of_flat_layers(rank);
  stack.strategy = strategy(rank);
  // The computation, the first gather if parameters are sharded, and the last reduction.
  const bool alone = rank.world().size() == 1;
  const std::chrono::nanoseconds first_gather = alone || stack.strategy == ShardStrategy::no_shard ? 0ms : 10ms;
  const std::chrono::nanoseconds last_reduction = alone ? 0ms : 10ms;
  const Run run = play_accepted(rank, scenario_of(stack));
  check_no_race(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    {
      const auto judged = rank.under("OVL-1");
      check_time(iteration, "forward", iteration.forward(), Limit::at_most, 87ms);
    }
    {
      const auto judged = rank.under("OVL-2");
      check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_most, 261ms);
    }
    const auto judged = rank.under("OVL-3");
    check_time(iteration, "forward", iteration.forward(), Limit::at_least, first_gather + 75ms);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_least,
               first_gather + 225ms + last_reduction);
  }
  const auto judged = rank.under("OVL-3");
  check_plan_is_communicated(rank, run);
}

RANKED_TEST_CASE("overlap/flat_seed_times", clauses("OVL-32"), ranks(1, 2, 3, 4), on_engines("flat_shard"),
                 needs(Feature::timeline), tags("reference")) {
  const bool alone = rank.world().size() == 1;
  const oracles::FlatStack stack = seed_of_flat_layers(rank);
  const Run run = play_accepted(rank, scenario_of(stack));
  check_no_race(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_time(iteration, "forward", iteration.forward(), Limit::exactly, alone ? 75ms : 85ms);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly, alone ? 225ms : 245ms);
  }
  check_times(run, stack);
}

RANKED_TEST_CASE("overlap/flat_times", clauses("OVL-32"), ranks(1, 2, 3, 4), on_engines("flat_shard"),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"), each("set", 0, 1, 2, 3, 4, 5),
                 needs(Feature::timeline, FlatShardFeature::prefetch_after, FlatShardFeature::forward_prefetch,
                       FlatShardFeature::gather_limit),
                 tags("reference")) {
  std::mt19937_64 random(rank.seed());
  const auto pick = [&](std::uint64_t count) { return random() % count; };
  oracles::FlatStack stack{.world = rank.world().size()};
  for (std::uint64_t layer = 0, layers = 2 + pick(5); layer < layers; ++layer) {
    const auto duration = [&] { return static_cast<Nanoseconds>(1 + pick(60)) * 1'000'000; };
    stack.layers.push_back(
        {.forward = duration(), .backward = duration(), .all_gather = duration(), .reduction = duration()});
  }
  stack.strategy = strategy(rank);
  // The first three sets have the three policies, so that the draw cannot miss a policy.
  const int set = rank.param<int>("set");
  stack.backward_prefetch = static_cast<FlatPrefetch>(set % 3);
  stack.forward_prefetch = set % 2 == 1;
  stack.limit_all_gathers = pick(4) != 0;
  const Run run = play_accepted(rank, scenario_of(stack));
  check_no_race(rank, run);
  check_times(run, stack);
  check_nothing_else_is_communicated(rank, run);
}

RANKED_TEST_CASE("overlap/flat_order", clauses("OVL-39"), ranks(2, 3), on_engines("flat_shard"),
                 each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("backward_prefetch", "before", "after", "none"), each("forward_prefetch", false, true),
                 needs(Feature::timeline, FlatShardFeature::prefetch_after, FlatShardFeature::forward_prefetch),
                 tags("reference")) {
  oracles::FlatStack stack = seed_of_flat_layers(rank);
  stack.strategy = strategy(rank);
  stack.backward_prefetch = backward_prefetch(rank);
  stack.forward_prefetch = rank.param<bool>("forward_prefetch");
  const Run run = play_accepted(rank, scenario_of(stack));
  const std::vector<oracles::FlatIteration> expected = oracles::flat_iterations(stack, stack_iterations);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(calls(iteration) == expected.at(static_cast<std::size_t>(iteration.index())).calls);
  }
}

RANKED_TEST_CASE("overlap/gather_limit", clauses("OVL-33"), ranks(2, 3, 4), on_engines("flat_shard"),
                 each("forward_prefetch", false, true),
                 needs(Feature::timeline, FlatShardFeature::gather_limit, FlatShardFeature::forward_prefetch)) {
  oracles::FlatStack stack{.layers = {6, seed_layer},
                           .world = rank.world().size(),
                           .forward_prefetch = rank.param<bool>("forward_prefetch")};
  for (const Run run = play_accepted(rank, scenario_of(stack)); const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(most_whole_units(iteration) <= 1 + 2);
  }
  // The bound binds: without it gathers run further ahead.
  stack.limit_all_gathers = false;
  for (const Run run = play_accepted(rank, scenario_of(stack)); const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(most_whole_units(iteration) > 1 + 2);
  }
}

}  // namespace shardproof::overlap
