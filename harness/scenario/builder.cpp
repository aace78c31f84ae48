#include "harness/scenario/builder.hpp"

#include <stdexcept>
#include <string>

#include "harness/scenario/plan/fully_shard.hpp"

namespace shardproof {

namespace {

// The block's layer that computes; its other child is the activation.
Module& layer(Module& block) { return block.children.front(); }

}  // namespace

SleepingStack::SleepingStack(int layers, int width) {
  Model& model = scenario_.model;
  for (int index = 0; index < layers; ++index) {
    Module linear{
        .name = "linear", .kind = ModuleKind::linear, .in_features = width, .out_features = width, .bias = false};
    Module relu{.name = "relu", .kind = ModuleKind::relu};
    model.root.children.push_back({.name = std::to_string(index), .children = {std::move(linear), std::move(relu)}});
    fully_shard_plan(scenario_.plan).wrap.push_back({.modules = {std::to_string(index)}});
  }
  fully_shard_plan(scenario_.plan).wrap.push_back({.modules = {""}});
  scenario_.script.segments = {{.iterations = 1, .body = {{ActionKind::forward}, {ActionKind::backward}}}};
  scenario_.script.input = {2, width};
}

SleepingStack& SleepingStack::forward(std::chrono::nanoseconds each) {
  for (Module& block : scenario_.model.root.children) layer(block).forward_sleep = each.count();
  return *this;
}

SleepingStack& SleepingStack::backward(std::chrono::nanoseconds each) {
  for (Module& block : scenario_.model.root.children) layer(block).backward_sleep = each.count();
  return *this;
}

SleepingStack& SleepingStack::forward(const std::vector<std::chrono::nanoseconds>& per_layer) {
  if (per_layer.size() != scenario_.model.root.children.size())
    throw std::invalid_argument("sleeping_stack: forward: one duration per layer");
  for (std::size_t i = 0; i < per_layer.size(); ++i)
    layer(scenario_.model.root.children[i]).forward_sleep = per_layer[i].count();
  return *this;
}

SleepingStack& SleepingStack::backward(const std::vector<std::chrono::nanoseconds>& per_layer) {
  if (per_layer.size() != scenario_.model.root.children.size())
    throw std::invalid_argument("sleeping_stack: backward: one duration per layer");
  for (std::size_t i = 0; i < per_layer.size(); ++i)
    layer(scenario_.model.root.children[i]).backward_sleep = per_layer[i].count();
  return *this;
}

SleepingStack& SleepingStack::collectives(std::chrono::nanoseconds each) {
  return all_gather(each).reduce_scatter(each);
}

SleepingStack& SleepingStack::all_gather(std::chrono::nanoseconds each) {
  scenario_.costs.collectives[CollectiveKind::all_gather] = {.fixed = each.count()};
  return *this;
}

SleepingStack& SleepingStack::reduce_scatter(std::chrono::nanoseconds each) {
  scenario_.costs.collectives[CollectiveKind::reduce_scatter] = {.fixed = each.count()};
  return *this;
}

SleepingStack& SleepingStack::copy_in(std::chrono::nanoseconds each) {
  scenario_.costs.work[WorkKind::copy_in] = each.count();
  return *this;
}

SleepingStack& SleepingStack::reshard_after_forward(bool reshard) {
  using Kind = ReshardAfterForward::Kind;
  for (WrapGroup& group : fully_shard_plan(scenario_.plan).wrap)
    group.reshard_after_forward = {reshard ? Kind::yes : Kind::no};
  return *this;
}

SleepingStack& SleepingStack::prefetch(int forward, int backward) {
  std::vector<WrapGroup>& wrap = fully_shard_plan(scenario_.plan).wrap;
  const auto layers = static_cast<int>(wrap.size()) - 1;  // the last is the root
  const auto name = [&wrap](int layer) { return wrap[static_cast<std::size_t>(layer)].modules.front(); };
  fully_shard_plan(scenario_.plan).backward_prefetch = BackwardPrefetch::none;
  for (int layer = 0; layer < layers; ++layer) {
    WrapGroup& group = wrap[static_cast<std::size_t>(layer)];
    group.forward_prefetch.clear();
    group.backward_prefetch.clear();
    for (int ahead = 1; ahead <= forward && layer + ahead < layers; ++ahead)
      group.forward_prefetch.push_back(name(layer + ahead));
    for (int ahead = 1; ahead <= backward && ahead <= layer; ++ahead)
      group.backward_prefetch.push_back(name(layer - ahead));
  }
  return *this;
}

SleepingStack& SleepingStack::serial() {
  scenario_.device.single_stream = true;
  return *this;
}

SleepingStack& SleepingStack::imagined_ranks(int ranks) {
  scenario_.device.imagined_ranks = ranks;
  return *this;
}

SleepingStack& SleepingStack::iterations(int count) {
  scenario_.script.segments.front().iterations = count;
  return *this;
}

SleepingStack& SleepingStack::train(int iterations, Optimizer optimizer) {
  scenario_.plan.optimizer = optimizer;
  scenario_.script.segments = {{.iterations = iterations,
                                .body = {{ActionKind::forward},
                                         {ActionKind::backward},
                                         {ActionKind::step},
                                         {ActionKind::capture},
                                         {ActionKind::zero_grad}}}};
  return *this;
}

SleepingStack sleeping_stack(int layers) { return SleepingStack(layers); }

}  // namespace shardproof
