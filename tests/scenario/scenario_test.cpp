#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <cmath>
#include <functional>
#include <utility>

#include "harness/scenario/builder.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace std::chrono_literals;

TEST_CASE("a stack is blocks of a layer and an activation, all wrapped, and so is the root") {
  const Scenario scenario = sleeping_stack(2).forward(25ms).backward(50ms).collectives(10ms).reshard_after_forward(true);
  CHECK(paths(scenario.model) == std::vector<std::string>{"", "0", "0.linear", "0.relu", "1", "1.linear", "1.relu"});
  REQUIRE(scenario.plan.wrap.size() == 3);
  CHECK(scenario.plan.wrap.back().modules == std::vector<std::string>{""});
  const Module* layer = find(scenario.model, "1.linear");
  REQUIRE(layer != nullptr);
  CHECK(layer->forward_sleep == 25'000'000);
  CHECK(layer->backward_sleep == 50'000'000);
  CHECK(scenario.costs.of_collective(CollectiveKind::reduce_scatter, "1", 64) == 10'000'000);
  CHECK_NOTHROW(validate(scenario));
}

TEST_CASE("parameters are named by path and stand in order of registration") {
  Model model;
  model.root.children = {{.name = "a", .kind = ModuleKind::linear, .in_features = 3, .out_features = 4},
                         {.name = "b", .kind = ModuleKind::linear, .in_features = 4, .out_features = 2, .bias = false}};
  const auto all = parameters(model);
  REQUIRE(all.size() == 3);
  CHECK(all[0].name == "a.weight");
  CHECK(all[0].shape == Shape{4, 3});
  CHECK(all[1].name == "a.bias");
  CHECK(all[1].shape == Shape{4});
  CHECK(all[2].name == "b.weight");

  Model lone;
  lone.root = {.kind = ModuleKind::linear, .in_features = 1, .out_features = 1, .bias = false};
  CHECK(parameters(lone).front().name == "weight");
}

TEST_CASE("a stack wants one duration per layer") {
  CHECK_THROWS_AS(sleeping_stack(2).forward(std::vector<std::chrono::nanoseconds>{1ms}), std::invalid_argument);
  CHECK_THROWS_AS(sleeping_stack(2).backward(std::vector<std::chrono::nanoseconds>{1ms, 1ms, 1ms}), std::invalid_argument);
}

TEST_CASE("an error names the place in the document and what was expected there") {
  struct Wrong {
    const char* message;
    std::function<void(Scenario&)> spoil;
  };
  const std::vector<Wrong> all{
      {"scenario: script, input: expected [batch, features] with both positive, found [4]", [](Scenario& s) { s.script.input = {4}; }},
      {"scenario: script, input: expected [batch, features] with both positive, found [0, 4]",
       [](Scenario& s) { s.script.input = {0, 4}; }},
      {"scenario: model, module \"0.linear\": takes 4 features, but 5 arrive", [](Scenario& s) { s.script.input = {2, 5}; }},
      {"scenario: model, module \"1.linear\": takes 3 features, but 4 arrive",
       [](Scenario& s) { s.model.root.children[1].children[0].in_features = 3; }},
      {"scenario: model, module \"0.linear\": a linear module has at least one feature on each side, not 4 -> 0",
       [](Scenario& s) { s.model.root.children[0].children[0].out_features = 0; }},
      {"scenario: model, module \"0.linear\": a sleep must not be negative",
       [](Scenario& s) { s.model.root.children[0].children[0].forward_sleep = -1; }},
      {"scenario: model, module \"\": two children are named \"0\"", [](Scenario& s) { s.model.root.children[1].name = "0"; }},
      {"scenario: model, module \"\": a child is named \"a.b\": a name must not be empty nor contain a dot",
       [](Scenario& s) { s.model.root.children[1].name = "a.b"; }},
      {"scenario: model, module \"0.relu\": only a sequential module has children",
       [](Scenario& s) { s.model.root.children[0].children[1].children.emplace_back(); }},
      {"scenario: plan, wrap: the model has no module \"2\"", [](Scenario& s) { s.plan.wrap.push_back({.modules = {"2"}}); }},
      {"scenario: plan, wrap: \"0\" stands twice", [](Scenario& s) { s.plan.wrap.push_back({.modules = {"0"}}); }},
      {"scenario: plan, wrap: a group of one module is expected, not of 0", [](Scenario& s) { s.plan.wrap.emplace_back(); }},
      {"scenario: script, iterations: at least one", [](Scenario& s) { s.script.segments.front().iterations = 0; }},
      {"scenario: script, body: a backward without a forward before it",
       [](Scenario& s) { s.script.segments.front().body = {{ActionKind::backward}}; }},
      {"scenario: script, body: a second forward without a backward between",
       [](Scenario& s) { s.script.segments.front().body = {{ActionKind::forward}, {ActionKind::forward}}; }},
      {"scenario: model, init_divisor: must be positive", [](Scenario& s) { s.model.init_divisor = 0; }},
      {"scenario: script, input_divisor: must be positive", [](Scenario& s) { s.script.input_divisor = 0; }},
      {"scenario: model, loss, divisor: must be positive", [](Scenario& s) { s.model.loss.divisor = 0; }},
      {"scenario: model, loss, divisor: must be positive", [](Scenario& s) { s.model.loss.divisor = std::nan(""); }},
      {"scenario: model, loss, divisor: of a dot an integer, not 0.5", [](Scenario& s) { s.model.loss = {LossKind::dot, 0.5}; }},
      {"scenario: model, loss, divisor: of a dot an integer, not 4000000000", [](Scenario& s) { s.model.loss = {LossKind::dot, 4e9}; }},
      {"scenario: model, module \"0.relu\": only a linear module sleeps",
       [](Scenario& s) { s.model.root.children[0].children[1].backward_sleep = 1; }},
      {"scenario: model, module \"0\": only a linear module sleeps", [](Scenario& s) { s.model.root.children[0].forward_sleep = 1; }},
      {"scenario: plan, wrap: \"1\" stands behind \"\": children come before parents",
       [](Scenario& s) { std::swap(s.plan.wrap[0], s.plan.wrap[2]); }},
      {"scenario: plan, wrap: \"1.linear\" stands behind \"1\": children come before parents",
       [](Scenario& s) { s.plan.wrap.insert(s.plan.wrap.begin() + 2, {.modules = {"1.linear"}}); }},
      {"scenario: costs, work forward: must not be negative", [](Scenario& s) { s.costs.work[WorkKind::forward] = -1; }},
      {"scenario: costs, work forward \"0\": must not be negative",
       [](Scenario& s) { s.costs.labelled_work[{WorkKind::forward, "0"}] = -1; }},
      {"scenario: costs, collective all_gather: must not be negative",
       [](Scenario& s) { s.costs.collectives[CollectiveKind::all_gather].fixed = -1; }},
      {"scenario: costs, collective all_gather: must not be negative",
       [](Scenario& s) { s.costs.collectives[CollectiveKind::all_gather].per_kib = -1; }},
      {"scenario: costs, collective all_gather \"0\": must not be negative",
       [](Scenario& s) { s.costs.tagged_collectives[{CollectiveKind::all_gather, "0"}] = -1; }},
      {"scenario: costs, host_call: must not be negative", [](Scenario& s) { s.costs.host_call = -1; }},
  };
  for (const Wrong& wrong : all) {
    Scenario scenario = sleeping_stack(2);
    wrong.spoil(scenario);
    CHECK_THROWS_MATCHES(validate(scenario), std::invalid_argument, Catch::Matchers::Message(wrong.message));
  }
}
