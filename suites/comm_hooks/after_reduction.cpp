// Hooks of engines that shard each parameter: after a reduction, and after a parameter has its gradient.
#include <shardproof.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "fixtures/oracles/rounding.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/comm_hooks/gradients.hpp"
#include "suites/comm_hooks/scenarios.hpp"

namespace shardproof::comm_hooks {

using namespace suites;

namespace {

// `net` and the root are groups, and a wrapped module has no parameters. On a mesh the first half of the ranks holds
// the same parts as the second.
Scenario hooked_groups(Rank& rank, HookPoint point, HookKind kind, bool has_mesh) {
  Scenario scenario = hooked_net(ShardStrategy::full_shard, true);
  scenario.plan = {};
  fully_shard_plan(scenario.plan).wrap = {{.modules = {"net"}}, {.modules = {"relu"}}, {.modules = {""}}};
  if (has_mesh) scenario.plan.mesh = {.shape = {2, rank.world().size() / 2}, .names = {"copies", "parts"}};
  Action hook = registration(kind);
  hook.hook->point = point;
  return with_calls_first(scenario, {hook});
}

double doubled_mean(std::span<const double> by_rank) { return 2 * mean(by_rank); }

// The captured gradients of a group one after the other, each padded to the first rank's part.
std::vector<float> packed(const Capture& capture, bool in_net, int shards) {
  std::vector<float> values;
  for (const CapturedParameter& parameter : capture.parameters) {
    if (is_at_or_under(parameter.name, "net") != in_net) continue;
    REQUIRE(parameter.gradient.dtype() == DType::f32);
    const auto own = parameter.gradient.values<float>();
    const std::int64_t rows = (parameter.shape[0] + shards - 1) / shards;
    const std::size_t end =
        values.size() + static_cast<std::size_t>(rows * numel(parameter.shape) / parameter.shape[0]);
    values.insert(values.end(), own.begin(), own.end());
    values.resize(end, 0);
  }
  return values;
}

}  // namespace

RANKED_TEST_CASE("comm_hooks/after_reduction", clauses("CMH-20", "CMH-22", "CMH-16"), ranks(1, 2, 3, 4),
                 on_engines("fully_shard"), each("hook", "plain", "doubled"),
                 needs(Feature::timeline, FullyShardFeature::reduction_hooks)) {
  const bool doubles = rank.param("hook") == "doubled";
  const Run run = play_accepted(
      rank, hooked_groups(rank, HookPoint::after_reduction, doubles ? HookKind::doubled : HookKind::plain, false));
  check_gradients(rank, run, doubles ? Combine(doubled_mean) : Combine(mean));
  const auto judged = rank.under("CMH-20");
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    const auto calls = hook_calls(run, iteration);
    std::vector<std::string> called;
    for (const Callback* call : calls) {
      called.push_back(call->name);
      CHECK(state_of(*call) == static_cast<std::uint64_t>(state));
      CHECK(call->during == "backward");
      std::vector<float> expected =
          packed(run.captures().at(static_cast<std::size_t>(iteration)), call->name == "net", rank.world().size());
      if (doubles) std::ranges::transform(expected, expected.begin(), [](float value) { return value / 2; });
      REQUIRE(call->tensors.size() == 1);
      CHECK(first_difference(call->tensors[0],
                             Tensor::of<float>({static_cast<std::int64_t>(expected.size())}, expected)) == "");
    }
    std::ranges::sort(called);
    CHECK(called == std::vector<std::string>{"", "net"});
  }
  check_sound_iterations(rank, run);
}

// The plan reduces in low precision: the hook gets the reduced gradient before it becomes f32. In f16 the last division
// comes after the hook.
RANKED_TEST_CASE("comm_hooks/after_reduction_in_low_precision", clauses("CMH-20"), ranks(1, 2, 3),
                 on_engines("fully_shard"), each("dtype", "f16", "bf16"),
                 needs(FullyShardFeature::reduction_hooks, Feature::mixed_precision)) {
  const DType low = rank.param("dtype") == "f16" ? DType::f16 : DType::bf16;
  Scenario scenario = hooked_groups(rank, HookPoint::after_reduction, HookKind::plain, false);
  scenario.plan.mixed_precision.reduce = low;
  const double after_hook = low == DType::f16 ? division(rank.world().size()).after : 1;
  const Run run = play_accepted(rank, scenario);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    const auto calls = hook_calls(run, iteration);
    REQUIRE(calls.size() == 2);
    for (const Callback* call : calls) {
      CAPTURE(call->name);
      const std::vector<float> expected =
          packed(run.captures().at(static_cast<std::size_t>(iteration)), call->name == "net", rank.world().size());
      CHECK(call->tensors.at(0).dtype() == low);
      std::vector<double> divided = call->tensors.at(0).to_doubles();
      for (double& value : divided) value = oracles::rounded_to(low, value / after_hook);
      CHECK(divided == std::vector<double>(expected.begin(), expected.end()));
    }
  }
}

RANKED_TEST_CASE("comm_hooks/after_reduction_on_a_mesh", clauses("CMH-20", "CMH-22"), ranks(2, 4),
                 on_engines("fully_shard"),
                 needs(Feature::timeline, FullyShardFeature::reduction_hooks, Feature::replicated_mesh)) {
  const Run run = play_accepted(rank, hooked_groups(rank, HookPoint::after_reduction, HookKind::doubled, true));
  check_gradients(rank, run, doubled_mean);
  const auto judged = rank.under("CMH-20");
  for (int iteration = 0; iteration < iterations; ++iteration) CHECK(hook_calls(run, iteration).size() == 2);
  check_no_race(rank, run);
}

RANKED_TEST_CASE("comm_hooks/after_accumulation", clauses("CMH-21", "CMH-22", "CMH-16"), ranks(1, 2, 3, 4),
                 also_with_discarded_module(), on_engines("fully_shard"), each("hook", "plain", "doubled"),
                 needs(Feature::timeline, FullyShardFeature::reduction_hooks)) {
  const bool doubles = rank.param("hook") == "doubled";
  const Run run = play_accepted(
      rank, hooked_groups(rank, HookPoint::after_accumulation, doubles ? HookKind::doubled : HookKind::plain, false));
  check_gradients(rank, run, doubles ? Combine(doubled_mean) : Combine(mean));
  const auto judged = rank.under("CMH-21");
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CAPTURE(iteration);
    const auto calls = hook_calls(run, iteration);
    const Capture& capture = run.captures().at(static_cast<std::size_t>(iteration));
    CHECK(calls.size() == capture.parameters.size());
    for (const CapturedParameter& parameter : capture.parameters) {
      CAPTURE(parameter.name);
      const auto call = std::ranges::find(calls, parameter.name, [](const Callback* each) { return each->name; });
      REQUIRE(call != calls.end());
      CHECK(state_of(**call) == static_cast<std::uint64_t>(state));
      CHECK((*call)->during == "backward");
      const Tensor left = std::get<GradientHookCall>((*call)->detail).result;
      REQUIRE(left.defined());
      const auto judged_result = rank.under("CMH-21", "CMH-22");
      CHECK(left.flatten() == parameter.gradient.flatten());
    }
  }
  check_sound_iterations(rank, run);
}

}  // namespace shardproof::comm_hooks
