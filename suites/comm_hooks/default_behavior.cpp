// Without a hook: the mean over ranks, everywhere.
#include <shardproof.hpp>

#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/comm_hooks/gradients.hpp"
#include "suites/comm_hooks/scenarios.hpp"

namespace shardproof::comm_hooks {

SUITE_ENGINE("comm_hooks", "flat_shard");

using namespace suites;

namespace {

// A layer of one input, which is the rank plus one, and one output for each rank. So each element of the gradient is
// that number.
Scenario ranks_as_gradients(Rank& rank) {
  const int world = rank.world().size();
  Scenario scenario;
  scenario.model.root.children = {
      {.name = "net", .kind = ModuleKind::linear, .in_features = 1, .out_features = world, .bias = false}};
  FlatShardPlan& plan = flat_shard_plan(scenario.plan);
  plan.strategy = strategy(rank);
  plan.wrap = {""};
  scenario.script.input = {1, 1};
  std::vector<std::vector<double>> inputs;
  for (int each = 0; each < world; ++each) inputs.push_back({static_cast<double>(each + 1)});
  scenario.script.given = {inputs};
  scenario.script.segments = {{.iterations = iterations,
                               .body = {{.kind = ActionKind::zero_grad},
                                        {.kind = ActionKind::forward},
                                        {.kind = ActionKind::backward},
                                        {.kind = ActionKind::capture}}}};
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("comm_hooks/default_behavior", clauses("CMH-1"), ranks(1, 2, 3, 4, 8), more_ranks(5, 6, 7),
                 each("strategy", "no_shard", "full_shard", "shard_grad_op"), needs(FlatShardFeature::gradient_hooks),
                 seed("test_fsdp_comm_hooks.py::test_default_communication_hook_behavior",
                      each("strategy", "no_shard", "full_shard", "shard_grad_op"))) {
  const int world = rank.world().size();
  const Run run = play_accepted(rank, ranks_as_gradients(rank));
  REQUIRE(run.captures().size() == static_cast<std::size_t>(iterations));
  check_all_elements(rank, run);
  const auto expected = static_cast<float>((world + 1) / 2.0);
  for (const Capture& capture : run.captures()) {
    const CapturedParameter& weight = capture.parameters.at(0);
    if (weight.shard.numel() == 0) continue;
    REQUIRE(weight.gradient.defined());
    const std::vector<float> all(static_cast<std::size_t>(weight.gradient.numel()), expected);
    CHECK(weight.gradient == Tensor::of<float>(weight.gradient.shape(), all));
  }
  CHECK(run.count_callbacks({.kind = CallbackKind::gradient_hook}) == 0);
}

RANKED_TEST_CASE("comm_hooks/default_of_each_unit", clauses("CMH-1", "CMH-14", "CMH-16"), ranks(1, 2, 3, 4),
                 more_ranks(8, 16, 32, 64), each("strategy", "no_shard", "full_shard", "shard_grad_op"),
                 each("wrapping", false, true), needs(Feature::timeline, FlatShardFeature::gradient_hooks)) {
  const Run run = play_accepted(rank, hooked_net(strategy(rank), rank.param<bool>("wrapping")));
  check_all_elements(rank, run);
  check_gradients(rank, run, mean);
  const auto judged = rank.under("CMH-1");
  CHECK(run.count_callbacks({.kind = CallbackKind::gradient_hook}) == 0);
  const auto judged_dtypes = rank.under("CMH-14");
  for (const Iteration& iteration : steady_iterations(run)) {
    for (const fact::Collective& call : iteration.collectives()) CHECK(call.dtype == DType::f32);
    check_nothing_is_left(rank, run, iteration.index());
  }
  check_same_order(rank, run);
  check_no_race(rank, run);
}

}  // namespace shardproof::comm_hooks
