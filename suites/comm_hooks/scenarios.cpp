#include "suites/comm_hooks/scenarios.hpp"

#include <algorithm>
#include <utility>

namespace shardproof::comm_hooks {

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

bool trains(const Script::Segment& segment) {
  return std::ranges::any_of(segment.body, [](const Action& action) { return action.kind == ActionKind::forward; });
}

}  // namespace

Scenario hooked_net(ShardStrategy strategy, bool wrapping) {
  Scenario scenario;
  scenario.model.root.children = {
      {.name = "net", .children = {linear("0", 8, 15), {.name = "1", .kind = ModuleKind::relu}, linear("2", 15, 8)}},
      {.name = "relu", .kind = ModuleKind::relu},
      linear("out", 8, 5)};
  scenario.model.loss = {.kind = LossKind::dot, .divisor = 1};
  scenario.model.init_divisor = 1;
  FlatShardPlan& plan = flat_shard_plan(scenario.plan);
  plan.strategy = strategy;
  plan.wrap = wrapping ? std::vector<std::string>{"net", ""} : std::vector<std::string>{""};
  scenario.script.input = {2, 8};
  scenario.script.input_divisor = 1;
  scenario.script.keep_tensors = true;
  scenario.script.segments = {{.iterations = iterations,
                               .body = {{.kind = ActionKind::forward},
                                        {.kind = ActionKind::backward},
                                        {.kind = ActionKind::capture},
                                        {.kind = ActionKind::zero_grad}}}};
  return scenario;
}

std::vector<std::string> units(bool wrapping) {
  return wrapping ? std::vector<std::string>{"net", ""} : std::vector<std::string>{""};
}

Scenario with_calls_first(Scenario scenario, std::vector<Action> calls) {
  scenario.script.segments.insert(scenario.script.segments.begin(), {.body = std::move(calls)});
  return scenario;
}

Scenario with_call_in_third_iteration(Scenario scenario, Action call) {
  std::vector<Script::Segment>& segments = scenario.script.segments;
  segments = {segments.front(), segments.front(), segments.front()};
  segments[0].iterations = 2;
  segments[1].iterations = 1;
  segments[2].iterations = iterations - 3;
  segments[1].body.insert(segments[1].body.begin() + 1, std::move(call));
  return scenario;
}

Action registration(HookKind kind, std::string module) {
  return {.kind = ActionKind::register_hook, .module = std::move(module), .hook = Hook{.kind = kind, .state = state}};
}

Action refused(Action call) {
  call.hook->refused = true;
  return call;
}

Action direct(Action call) {
  call.hook->direct = true;
  return call;
}

std::vector<NamedGradient> local_gradients(const Scenario& scenario, int rank_index, int iteration) {
  const auto first = std::ranges::find_if(scenario.script.segments, trains);
  int before = 0;
  for (auto segment = scenario.script.segments.begin(); segment != first; ++segment) before += segment->iterations;
  return suites::own_gradients(scenario, rank_index, before + iteration);
}

}  // namespace shardproof::comm_hooks
