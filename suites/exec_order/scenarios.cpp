#include "suites/exec_order/scenarios.hpp"

#include <utility>

#include "suites/checks/exact_inputs.hpp"

namespace shardproof::exec_order {

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out, bool bias) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out, .bias = bias};
}

Module relu(std::string name) { return {.name = std::move(name), .kind = ModuleKind::relu}; }

// Each twin has 64 elements, even if each parameter is aligned.
Model twins() {
  const Module first{.name = "first", .children = {linear("only", 8, 8, false)}};
  const Module second{.name = "second",
                      .children = {linear("in", 8, 4, false), relu("relu"), linear("out", 4, 8, false)}};
  return {.root = {.children = {linear("start", 5, 8, true),
                                relu("relu"),
                                {.name = "way", .kind = ModuleKind::choice, .children = {first, second}},
                                relu("end")}},
          .loss = {.kind = LossKind::dot, .divisor = 1},
          .init_divisor = 1};
}

}  // namespace

Twins::Twins(Rank& rank, ShardStrategy strategy, bool use_orig_params) : ranks_(rank.world().size()) {
  scenario_.model = twins();
  FlatShardPlan& plan = flat_shard_plan(scenario_.plan);
  plan.wrap = {first_way, second_way, ""};
  plan.validate_order = true;
  plan.strategy = strategy;
  plan.use_orig_params = use_orig_params;
  scenario_.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 1.0 / 4};
  scenario_.script.input = {2, 5};
  scenario_.script.input_divisor = 1;
  suites::give_one_hot_inputs(scenario_.script);
}

Twins& Twins::validate(bool on) {
  flat_shard_plan(scenario_.plan).validate_order = on;
  return *this;
}

Twins& Twins::enforce_tags() {
  scenario_.script.enforce_tags = true;
  return *this;
}

// One call for each way that some rank takes.
std::vector<Action> Twins::forwards(ActionKind kind, Way way) const {
  const Action first{.kind = kind}, second{.kind = kind, .paths = {{"way", "second"}}};
  if (way == Way::first) return {first};
  if (way == Way::all_second) return {second};
  Action of_rank_0 = first, of_others = second;
  of_rank_0.ranks = {0};
  for (int rank = 1; rank < ranks_; ++rank) of_others.ranks.push_back(rank);
  if (of_others.ranks.empty()) return {first};
  return {of_rank_0, of_others};
}

void Twins::train_on(std::vector<Action> forwards, int iterations) {
  for (const ActionKind kind : {ActionKind::backward, ActionKind::step, ActionKind::capture, ActionKind::zero_grad})
    forwards.push_back({.kind = kind});
  scenario_.script.segments.push_back({.iterations = iterations, .body = std::move(forwards)});
}

Twins& Twins::train(Way way, int iterations) {
  train_on(forwards(ActionKind::forward, way), iterations);
  return *this;
}

Twins& Twins::train_on_two(Way second_forward, int iterations) {
  std::vector<Action> both = forwards(ActionKind::forward, Way::first);
  const std::vector<Action> second = forwards(ActionKind::forward, second_forward);
  both.insert(both.end(), second.begin(), second.end());
  train_on(std::move(both), iterations);
  return *this;
}

Twins& Twins::evaluate(Way way, int iterations) {
  scenario_.script.segments.push_back({.iterations = iterations, .body = forwards(ActionKind::evaluate, way)});
  return *this;
}

Twins& Twins::forward(Way way) {
  scenario_.script.segments.push_back({.body = forwards(ActionKind::forward, way)});
  return *this;
}

Twins& Twins::train_without_last_rank() {
  train(Way::first);
  for (Action& action : scenario_.script.segments.back().body) {
    for (int rank = 0; rank + 1 < ranks_; ++rank) action.ranks.push_back(rank);
  }
  return *this;
}

Twins& Twins::second_way_is_longer() {
  Module& second = scenario_.model.root.children[2].children[1];
  const Module again{.name = "again", .kind = ModuleKind::use, .target = first_way};
  second = {.name = "second", .children = {again, second}};
  second.children[1].name = "more";
  flat_shard_plan(scenario_.plan).wrap = {first_way, "way.second.more", ""};
  return *this;
}

Twins& Twins::first_way_runs_twice() {
  scenario_.model.root.children.push_back({.name = "again", .kind = ModuleKind::use, .target = first_way});
  return *this;
}

Twins& Twins::way_is_frozen() {
  scenario_.model.root.children[2].frozen = true;
  flat_shard_plan(scenario_.plan).wrap = {first_way, second_way, "way"};
  return *this;
}

Twins& Twins::fail_in(std::size_t segment, std::size_t at, const Action& failing) {
  std::vector<Action>& body = scenario_.script.segments.at(segment).body;
  body.insert(body.begin() + static_cast<std::ptrdiff_t>(at), failing);
  return *this;
}

}  // namespace shardproof::exec_order
