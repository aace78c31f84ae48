// Which plans divide linear modules among ranks, and which calls such a model gets.
#include <catch2/catch_test_macros.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/scenario/plan/replicate.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

Module linear_module(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

Scenario divided() {
  Scenario scenario;
  scenario.model.root.children = {
      linear_module("up", 3, 4), linear_module("down", 4, 3), {.name = "relu", .kind = ModuleKind::relu}};
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"dp", "tp"}};
  replicate_plan(scenario.plan).tensor_parallel = {{"up", TensorParallel::column}, {"down", TensorParallel::row}};
  scenario.script.input = {2, 3};
  scenario.script.segments = {{1, {{ActionKind::forward}, {ActionKind::backward}}}};
  return scenario;
}

std::string refusal_of(const Scenario& scenario) {
  try {
    validate(scenario);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

std::string refusal_of_call(Action action) {
  Scenario scenario = divided();
  scenario.script.segments.insert(scenario.script.segments.begin(), {1, {std::move(action)}});
  return refusal_of(scenario);
}

}  // namespace

TEST_CASE("a plan divides linear modules that have their own weight, on a mesh of two dimensions, evenly") {
  CHECK(refusal_of(divided()) == "none");
  Scenario flat = divided();
  flat.plan.mesh = {};
  CHECK(refusal_of(flat) ==
        "scenario: plan.mesh: tensor_parallel needs two dimensions, copies and parts, as in {\"shape\": [2, 2]}; found "
        "1");
  Scenario uneven = divided();
  uneven.plan.mesh.shape = {2, 3};
  CHECK(refusal_of(uneven) ==
        "scenario: plan.replicate.tensor_parallel.down: \"down\" has 4 input features for 3 ranks: choose a multiple "
        "of 3");
  Scenario other = divided();
  replicate_plan(other.plan).tensor_parallel["relu"] = TensorParallel::row;
  CHECK(refusal_of(other) ==
        "scenario: plan.replicate.tensor_parallel.relu: expected a linear module, found \"relu\", of kind relu");
  Scenario shares = divided();
  shares.model.root.children.push_back(linear_module("again", 3, 4));
  shares.model.root.children.back().tied_to = "up";
  CHECK(refusal_of(shares) ==
        "scenario: plan.replicate.tensor_parallel.up: \"again\" shares the weight of \"up\": divide neither");
  replicate_plan(shares.plan).tensor_parallel = {{"again", TensorParallel::column}, {"down", TensorParallel::row}};
  CHECK(refusal_of(shares) ==
        "scenario: plan.replicate.tensor_parallel.again: \"again\" shares the weight of \"up\": divide neither");
}

TEST_CASE("a divided model runs as a whole, and only the engine's hooks reduce its gradients") {
  CHECK(refusal_of_call({.kind = ActionKind::evaluate}) == "none");
  for (const ActionKind kind : {ActionKind::evaluate, ActionKind::forward}) {
    CHECK(refusal_of_call({.kind = kind, .module = "up"})
              .ends_with("with tensor_parallel the model runs as a whole: leave the module out"));
  }
  for (const HookKind kind : {HookKind::fp16_compress, HookKind::bf16_compress}) {
    CHECK(refusal_of_call({.kind = ActionKind::register_hook, .hook = Hook{.kind = kind}}) == "none");
  }
  CHECK(refusal_of_call({.kind = ActionKind::register_hook,
                         .hook = Hook{.kind = HookKind::not_callable, .refused = true}}) == "none");
  CHECK(refusal_of_call({.kind = ActionKind::register_hook, .hook = Hook{.kind = HookKind::plain}})
            .ends_with("with tensor_parallel ranks of the world have different gradients: use fp16_compress or "
                       "bf16_compress, or no hook"));
}

TEST_CASE("the ranks of one copy make the same calls, and get the same input") {
  CHECK(refusal_of_call({.kind = ActionKind::evaluate, .ranks = {0, 1}}) == "none");
  CHECK(refusal_of_call({.kind = ActionKind::evaluate, .ranks = {0, 2}}) ==
        "scenario: script.segments[0].body[0].ranks: ranks 0 and 1 have parts of one copy, so they make the same "
        "calls: name both, or neither");
  Scenario scenario = divided();
  const std::vector<double> input(6);
  scenario.script.given = {{input, input}};
  CHECK(refusal_of(scenario) == "none");
  scenario.script.given = {{input}, {input, input, input}};
  CHECK(refusal_of(scenario) ==
        "scenario: script.given[1]: 3 inputs for 2 copies of the model: give one for each copy");
}
