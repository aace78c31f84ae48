#include "suites/overlap/flat_ways.hpp"

#include <fmt/format.h>

#include <span>
#include <stdexcept>
#include <utility>
#include <variant>

#include "suites/checks/exact_inputs.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

namespace {

Module again(std::string name, std::string_view layer) {
  return {.name = std::move(name), .kind = ModuleKind::use, .target = unit_of_ways(layer)};
}

}  // namespace

std::string unit_of_ways(std::string_view layer) {
  const bool is_on_first = layer == "a" || layer == "b";
  return fmt::format("way.{}.{}", is_on_first ? "one" : "two", layer);
}

Scenario flat_ways(ShardStrategy strategy) {
  const Module one{.name = "one", .children = {linear("a", 4, 4), relu("relu"), linear("b", 4, 4)}};
  const Module two{.name = "two", .children = {linear("c", 4, 4), linear("d", 4, 4)}};
  const Module three{.name = "three", .children = {again("b", "b")}};
  const Module round{.name = "round", .children = {again("a", "a"), again("b", "b"), again("back", "a")}};
  Scenario scenario;
  scenario.model.root.children = {{.name = "way", .kind = ModuleKind::choice, .children = {one, two, three, round}},
                                  {.name = "end"}};
  scenario.model.loss = {.kind = LossKind::dot, .dot_seed = 169};
  scenario.model.init_divisor = 8;
  FlatShardPlan& plan = flat_shard_plan(scenario.plan);
  for (const char* layer : {"a", "b", "c", "d"}) plan.wrap.push_back(unit_of_ways(layer));
  plan.wrap.emplace_back("");
  plan.strategy = strategy;
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 1.0 / 16};
  scenario.script.input = {2, 4};
  suites::give_one_hot_inputs(scenario.script);
  return scenario;
}

Action forward_by(std::string way) {
  Action forward{.kind = ActionKind::forward};
  if (way != "one") forward.paths = {{"way", std::move(way)}};
  return forward;
}

Action failing_by(std::string way, std::string module) {
  Action forward = forward_by(std::move(way));
  forward.fails_in = std::move(module);
  return forward;
}

Action synced(bool value) { return {.kind = ActionKind::set_requires_gradient_sync, .value = value}; }

std::vector<Action> trained_by(std::vector<Action> calls) {
  for (const ActionKind kind : {ActionKind::step, ActionKind::capture, ActionKind::zero_grad})
    calls.push_back({.kind = kind});
  return calls;
}

std::vector<std::string> issued_in(const Iteration& iteration) {
  const std::span<const Fact> facts = iteration.facts();
  REQUIRE_FALSE(facts.empty());
  return issued_in(iteration, std::get<fact::Mark>(facts.front()).text, std::get<fact::Mark>(facts.back()).text);
}

std::vector<std::string> issued_in(const Iteration& iteration, std::string_view from_mark, std::string_view to_mark) {
  std::vector<std::string> issued;
  bool is_between = false, is_over = false;
  for (const Fact& fact : iteration.facts()) {
    if (const auto* mark = std::get_if<fact::Mark>(&fact)) {
      is_between = is_between || mark->text == from_mark;
      is_over = is_over || mark->text == to_mark;
    }
    if (is_over) return issued;
    if (!is_between) continue;
    if (const auto* call = std::get_if<fact::Collective>(&fact))
      issued.push_back(fmt::format("{} {}", to_string(call->kind), call->tag));
    const auto* work = std::get_if<fact::Work>(&fact);
    if (work != nullptr && (work->kind == WorkKind::forward || work->kind == WorkKind::backward))
      issued.push_back(fmt::format("{} {}", to_string(work->kind), work->label));
  }
  throw std::out_of_range(
      fmt::format("no marks \"{}\" and \"{}\" in iteration {}", from_mark, to_mark, iteration.index()));
}

}  // namespace shardproof::overlap
