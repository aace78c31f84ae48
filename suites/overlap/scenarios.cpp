#include "suites/overlap/scenarios.hpp"

#include <string>
#include <utility>

#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/exact_inputs.hpp"

namespace shardproof::overlap {

Module linear(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

Module convolution(std::string name, std::int64_t channels, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name),
          .kind = ModuleKind::convolution,
          .in_features = in,
          .out_features = out,
          .channels = channels};
}

Module relu(std::string name) { return {.name = std::move(name), .kind = ModuleKind::relu}; }

SleepingStack seed_stack() {
  return sleeping_stack(3).forward(25ms).backward(50ms).collectives(10ms).reshard_after_forward(true).iterations(3);
}

SleepingStack seed_stack_of(Rank& rank) {
  SleepingStack stack = seed_stack();
  if (rank.world().size() == 1) stack.imagined_ranks(2);
  return stack;
}

Scenario post_optim(const PostOptim& how) {
  Module sleeping = linear("linear", 4, 4);
  sleeping.forward_sleep = how.sleep_forward.count();
  sleeping.backward_sleep = how.sleep_backward.count();

  Scenario scenario;
  scenario.model.root.children = {{.name = "sleep", .children = {std::move(sleeping), relu("relu")}},
                                  {.name = "tiny", .children = {linear("linear", 4, 4), relu("relu")}}};
  fully_shard_plan(scenario.plan).wrap = {
      {.modules = {"tiny"}, .reshard_after_forward = {ReshardAfterForward::Kind::no}}};
  scenario.plan.optimizer = {.kind = OptimizerKind::adamw, .rate = 1e-2, .weight_decay = 1e-2};
  scenario.script.input = {2, 4};
  scenario.script.segments = {
      {.iterations = how.iterations,
       .body = {{ActionKind::zero_grad}, {ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}}}};
  if (how.event) scenario.script.segments.front().body.push_back({ActionKind::post_optim_event});
  scenario.costs.collectives[CollectiveKind::all_gather] = {.fixed = how.all_gather.count()};
  return scenario;
}

Scenario small_mlp(Optimizer optimizer, bool reshard_after_forward, int iterations) {
  using Kind = ReshardAfterForward::Kind;
  const ReshardAfterForward reshard{reshard_after_forward ? Kind::yes : Kind::no};
  Scenario scenario;
  scenario.model.root.children = {linear("l0", 4, 6), relu("relu"), linear("l1", 6, 3)};
  scenario.model.loss = {.kind = LossKind::dot, .dot_seed = 169};  // gradients 1, -1 and 2
  scenario.model.init_divisor = 1;
  fully_shard_plan(scenario.plan).wrap = {{{"l0"}, reshard}, {{"l1"}, reshard}, {{""}, reshard}};
  scenario.plan.optimizer = optimizer;
  scenario.script.input = {2, 4};
  suites::give_one_hot_inputs(scenario.script);
  scenario.script.segments = {{.iterations = iterations,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  return scenario;
}

Scenario traced_blocks(ReshardAfterForward reshard, bool post_optim_event) {
  Scenario scenario;
  for (const char* name : {"0", "1", "2"}) {
    scenario.model.root.children.push_back(
        {.name = name, .children = {linear("in_proj", 8, 32), relu("relu"), linear("out_proj", 32, 8)}});
    fully_shard_plan(scenario.plan).wrap.push_back({{name}, reshard});
  }
  fully_shard_plan(scenario.plan).wrap.push_back({{""}, reshard});
  scenario.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 64};
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 0.5};
  scenario.script.input = {2, 8};
  scenario.script.segments = {
      {.iterations = 3,
       .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::zero_grad}}}};
  if (post_optim_event) scenario.script.segments.front().body.push_back({ActionKind::post_optim_event});
  return scenario;
}

Scenario three_iterations(const std::vector<Action>& before, const std::vector<Action>& between, bool reshard) {
  Scenario scenario = small_mlp({.rate = 0.25}, reshard, 3);
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin() + 1, between.begin(), between.end());
  body.insert(body.begin(), before.begin(), before.end());
  return scenario;
}

Scenario language_model(bool wrap_blocks) {
  Module head = linear("head", 8, 16);
  head.bias = false;
  head.tied_to = "emb";
  Scenario scenario;
  scenario.model.root.children = {
      {.name = "emb", .kind = ModuleKind::embedding, .features = 8, .vocabulary = 16, .positions = 4},
      {.name = "attend",
       .kind = ModuleKind::residual,
       .children = {{.name = "ln", .kind = ModuleKind::layer_norm, .features = 8},
                    {.name = "mix", .kind = ModuleKind::attention, .features = 8}}},
      {.name = "feed",
       .kind = ModuleKind::residual,
       .children = {{.name = "ln", .kind = ModuleKind::layer_norm, .features = 8},
                    linear("up", 8, 32),
                    relu("relu"),
                    linear("down", 32, 8)}},
      std::move(head)};
  scenario.model.loss = {.kind = LossKind::cross_entropy};
  if (wrap_blocks) fully_shard_plan(scenario.plan).wrap = {{.modules = {"attend"}}, {.modules = {"feed"}}};
  fully_shard_plan(scenario.plan).wrap.push_back({.modules = {""}});
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 0.1};
  scenario.script.input = {2, 4};
  scenario.script.segments = {{.iterations = 3,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  return scenario;
}

}  // namespace shardproof::overlap
