#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/validate_script.hpp"

using namespace shardproof;
using namespace shardproof::scenario;
using namespace std::chrono_literals;

TEST_CASE("a stack is blocks of a layer and an activation, all wrapped, and so is the root") {
  const Scenario scenario =
      sleeping_stack(2).forward(25ms).backward(50ms).collectives(10ms).reshard_after_forward(true);
  CHECK(paths(scenario.model) == std::vector<std::string>{"", "0", "0.linear", "0.relu", "1", "1.linear", "1.relu"});
  REQUIRE(fully_shard_plan(scenario.plan).wrap.size() == 3);
  CHECK(fully_shard_plan(scenario.plan).wrap.back().modules == std::vector<std::string>{""});
  const Module* layer = find(scenario.model, "1.linear");
  REQUIRE(layer != nullptr);
  CHECK(layer->forward_sleep == 25'000'000);
  CHECK(layer->backward_sleep == 50'000'000);
  CHECK(scenario.costs.of_collective(CollectiveKind::reduce_scatter, "1", 64) == 10'000'000);
  CHECK_NOTHROW(validate(scenario));
}

TEST_CASE("parameters have their paths as names and are in order of registration") {
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

TEST_CASE("a path is under another only where a dot says so") {
  CHECK(is_at_or_under("a.b", "a"));
  CHECK(is_at_or_under("a", "a"));
  CHECK(is_at_or_under("a", ""));
  CHECK_FALSE(is_at_or_under("ab", "a"));
  CHECK_FALSE(is_at_or_under("a", "a.b"));
}

TEST_CASE("each rank's calls are checked by themselves") {
  Scenario scenario = sleeping_stack(1);
  scenario.script.segments.front().body = {{.kind = ActionKind::forward, .ranks = {0, 2}},
                                           {.kind = ActionKind::forward, .ranks = {1}},
                                           {.kind = ActionKind::backward}};
  CHECK_NOTHROW(validate(scenario));
  CHECK_NOTHROW(validate_script_in_world(scenario, 3));
  CHECK_THROWS_MATCHES(
      validate_script_in_world(scenario, 2), std::invalid_argument,
      Catch::Matchers::Message("scenario: script.segments[0].body[0].ranks: rank 2 is not in a world of 2: use "
                               "--ranks 3 or more, or set \"world_size\""));
  CHECK_THROWS_MATCHES(
      validate_script_in_world(scenario, 4), std::invalid_argument,
      Catch::Matchers::Message("scenario: script.segments[0].body[2] (backward): rank 3 has run no forward before it"));
  scenario.script.segments.front().body = {
      {.kind = ActionKind::forward}, {.kind = ActionKind::backward, .ranks = {0, 1}}, {.kind = ActionKind::step}};
  CHECK_NOTHROW(validate(scenario));
  CHECK_THROWS_MATCHES(validate_script_in_world(scenario, 3), std::invalid_argument,
                       Catch::Matchers::Message(
                           "scenario: script.segments[0].body[2] (step): a step between a forward and its backward, "
                           "which needs the parameters as they were (rank 2)"));
}

TEST_CASE("a gradient hook fails on ranks that there are") {
  Scenario scenario = sleeping_stack(1);
  scenario.script.segments.front().body = {{.kind = ActionKind::register_hook, .hook = Hook{.fails_on = {0, 2}}}};
  CHECK_NOTHROW(validate(scenario));
  CHECK_NOTHROW(validate_script_in_world(scenario, 3));
  CHECK_THROWS_MATCHES(
      validate_script_in_world(scenario, 2), std::invalid_argument,
      Catch::Matchers::Message("scenario: script.segments[0].body[0].fails_on: rank 2 is not in a world of 2: use "
                               "--ranks 3 or more, or set \"world_size\""));
}

TEST_CASE("what arrives at the next module is of the child that a choice runs") {
  Scenario scenario = sleeping_stack(1);
  scenario.model.root.children.insert(
      scenario.model.root.children.begin(),
      {.name = "first",
       .kind = ModuleKind::choice,
       .children = {{.name = "same", .kind = ModuleKind::relu},
                    {.name = "wider", .kind = ModuleKind::linear, .in_features = 4, .out_features = 5}}});
  CHECK_NOTHROW(validate(scenario));
  scenario.script.segments.front().body.front().paths = {{"first", "wider"}};
  CHECK_THROWS_MATCHES(
      validate(scenario), std::invalid_argument,
      Catch::Matchers::Message(
          "scenario: model.root.children[1].children[0] (\"0.linear\"): takes 4 features, but 5 arrive"));
}

TEST_CASE("a stack wants one duration per layer") {
  CHECK_THROWS_AS(sleeping_stack(2).forward(std::vector<std::chrono::nanoseconds>{1ms}), std::invalid_argument);
  CHECK_THROWS_AS(sleeping_stack(2).backward(std::vector<std::chrono::nanoseconds>{1ms, 1ms, 1ms}),
                  std::invalid_argument);
}

TEST_CASE("an error names the place in the document and what was expected there") {
  struct Wrong {
    const char* message;
    std::function<void(Scenario&)> spoil;
  };
  const std::vector<Wrong> all{
      {"scenario: script.input: expected [batch, features] with both positive, found [4]",
       [](Scenario& s) { s.script.input = {4}; }},
      {"scenario: script.input: expected [batch, features] with both positive, found [0, 4]",
       [](Scenario& s) { s.script.input = {0, 4}; }},
      {"scenario: model.root.children[0].children[0] (\"0.linear\"): takes 4 features, but 5 arrive",
       [](Scenario& s) { s.script.input = {2, 5}; }},
      {"scenario: model.root.children[1].children[0] (\"1.linear\"): takes 3 features, but 4 arrive",
       [](Scenario& s) { s.model.root.children[1].children[0].in_features = 3; }},
      {"scenario: model.root.children[0].children[0] (\"0.linear\"): a linear module needs at least one feature on "
       "each side, not 4 -> 0",
       [](Scenario& s) { s.model.root.children[0].children[0].out_features = 0; }},
      {"scenario: model.root.children[0].children[0] (\"0.linear\"): a sleep must not be negative",
       [](Scenario& s) { s.model.root.children[0].children[0].forward_sleep = -1; }},
      {"scenario: model.root: two children are named \"0\"", [](Scenario& s) { s.model.root.children[1].name = "0"; }},
      {"scenario: model.root: a child is named \"a.b\": a name must not be empty nor contain a dot",
       [](Scenario& s) { s.model.root.children[1].name = "a.b"; }},
      {"scenario: model.root: children[1].name has a control character: use characters that can be printed",
       [](Scenario& s) { s.model.root.children[1].name = std::string("a\0b", 3); }},
      {"scenario: model.root: children[0].name has a control character: use characters that can be printed",
       [](Scenario& s) { s.model.root.children[0].name = "a\nb"; }},
      {"scenario: model.root.children[0].children[1] (\"0.relu\"): a relu module has no children",
       [](Scenario& s) { s.model.root.children[0].children[1].children.emplace_back(); }},
      {"scenario: plan.fully_shard.wrap[3].modules[0]: the model has no module \"2\"; there are \"\", \"0\", "
       "\"0.linear\", \"0.relu\", \"1\", \"1.linear\", \"1.relu\"",
       [](Scenario& s) { fully_shard_plan(s.plan).wrap.push_back({.modules = {"2"}}); }},
      {"scenario: plan.fully_shard.wrap[3].modules[0]: \"0\" comes after \"\": list children before parents",
       [](Scenario& s) { fully_shard_plan(s.plan).wrap.push_back({.modules = {"0"}}); }},
      {"scenario: plan.fully_shard.wrap[3].modules: at least one path",
       [](Scenario& s) { fully_shard_plan(s.plan).wrap.emplace_back(); }},
      {"scenario: plan.fully_shard.wrap[0].forward_prefetch: \"0.linear\" is not wrapped; there are \"\", \"0\", \"1\"",
       [](Scenario& s) { fully_shard_plan(s.plan).wrap[0].forward_prefetch = {"0.linear"}; }},
      {"scenario: plan.mesh.shape: expected integers from 1 to 1048576, found 0",
       [](Scenario& s) { s.plan.mesh.shape = {2, 0}; }},
      {"scenario: plan.mesh.names: 1 names for 2 dimensions",
       [](Scenario& s) { s.plan.mesh = {.shape = {2, 2}, .names = {"shard"}}; }},
      {"scenario: plan.fully_shard.ignored_parameters: the model has no parameter \"0.weight\"; there are "
       "\"0.linear.weight\", \"1.linear.weight\"",
       [](Scenario& s) { fully_shard_plan(s.plan).ignored_parameters = {"0.weight"}; }},
      {"scenario: plan.fully_shard.shard_dims.\"0.weight\": the model has no parameter \"0.weight\"; there are "
       "\"0.linear.weight\", \"1.linear.weight\"",
       [](Scenario& s) { fully_shard_plan(s.plan).shard_dims["0.weight"] = 1; }},
      {"scenario: plan.fully_shard.gradient_divide_factor: expected a positive number, found -1",
       [](Scenario& s) { fully_shard_plan(s.plan).gradient_divide_factor = -1; }},
      {"scenario: model.root.children[2] (\"2\"): the model has no module \"x\"; there are \"\", \"0\", "
       "\"0.linear\", \"0.relu\", \"1\", \"1.linear\", \"1.relu\", \"2\"",
       [](Scenario& s) { s.model.root.children.push_back({.name = "2", .kind = ModuleKind::use, .target = "x"}); }},
      {"scenario: model.root.children[2] (\"2\"): runs itself",
       [](Scenario& s) { s.model.root.children.push_back({.name = "2", .kind = ModuleKind::use, .target = "2"}); }},
      {"scenario: model.root.children[2] (\"2\"): runs itself",
       [](Scenario& s) { s.model.root.children.push_back({.name = "2", .kind = ModuleKind::use, .target = ""}); }},
      {"scenario: model.root.children[2] (\"2\"): \"3\" is a list, which has no forward",
       [](Scenario& s) {
         s.model.root.children.push_back({.name = "2", .kind = ModuleKind::use, .target = "3"});
         s.model.root.children.push_back({.name = "3", .kind = ModuleKind::list});
       }},
      {"scenario: model.root.children[2] (\"2\"): adds 3 features to the 4 that arrive",
       [](Scenario& s) {
         Module inner{.name = "0", .kind = ModuleKind::linear, .in_features = 4, .out_features = 3};
         s.model.root.children.push_back({.name = "2", .kind = ModuleKind::residual, .children = {inner}});
       }},
      {"scenario: model.root.children[2] (\"2\"): attends to the positions of a sequence, but the model takes no "
       "tokens",
       [](Scenario& s) {
         s.model.root.children.push_back({.name = "2", .kind = ModuleKind::attention, .features = 4});
       }},
      {"scenario: model.root.children[3] (\"2\"): takes tokens, but 4 features arrive",
       [](Scenario& s) {
         s.model.root.children.insert(s.model.root.children.begin(),
                                      {.name = "first", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 2});
         s.model.root.children.push_back({.name = "2", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 2});
       }},
      {"scenario: model.root.children[0].children[0] (\"0.linear\"): takes features, but tokens arrive",
       [](Scenario& s) {
         s.model.root.children.push_back({.name = "2", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 2});
       }},
      {"scenario: model.root.children[0] (\"first\"): has 3 positions, but sequences of 4 tokens arrive",
       [](Scenario& s) {
         s.model.root.children.insert(
             s.model.root.children.begin(),
             {.name = "first", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 2, .positions = 3});
       }},
      {"scenario: model.root.children[0].children[0] (\"0.linear\"): \"1.relu\" is not a linear module or embedding "
       "with its own weight",
       [](Scenario& s) { s.model.root.children[0].children[0].tied_to = "1.relu"; }},
      {"scenario: model.root.children[2] (\"2\"): its weight would be [3, 4], but the weight of \"0.linear\" is [4, 4]",
       [](Scenario& s) {
         s.model.root.children.push_back(
             {.name = "2", .kind = ModuleKind::linear, .in_features = 4, .out_features = 3, .tied_to = "0.linear"});
       }},
      {"scenario: script.segments[0].body[0] (unshard): no module at or under \"0.relu\" is wrapped",
       [](Scenario& s) { s.script.segments.front().body = {{.kind = ActionKind::unshard, .module = "0.relu"}}; }},
      {"scenario: script.segments[0].body[0].fails_in: the model has no module \"9\"; there are \"\", \"0\", "
       "\"0.linear\", \"0.relu\", \"1\", \"1.linear\", \"1.relu\"",
       [](Scenario& s) { s.script.segments.front().body = {{.kind = ActionKind::forward, .fails_in = "9"}}; }},
      {"scenario: script.segments[0].body[0].fails_in: module \"1\" must fail, but does not run",
       [](Scenario& s) {
         s.script.segments.front().body = {{.kind = ActionKind::forward, .module = "0", .fails_in = "1"}};
       }},
      {"scenario: plan.fully_shard.wrap[0].modules[0]: \"again\" is a use of \"0\": wrap \"0\" instead",
       [](Scenario& s) {
         s.model.root.children.push_back({.name = "again", .kind = ModuleKind::use, .target = "0"});
         fully_shard_plan(s.plan).wrap.insert(fully_shard_plan(s.plan).wrap.begin(), {.modules = {"again"}});
       }},
      {"scenario: plan.mesh.names: two dimensions are named \"x\"",
       [](Scenario& s) { s.plan.mesh = {.shape = {1, 2}, .names = {"x", "x"}}; }},
      {"scenario: script.segments[0].body[0] (evaluate): \"spare\" is a list, which has no forward",
       [](Scenario& s) {
         s.model.root.children.push_back({.name = "spare", .kind = ModuleKind::list});
         s.script.segments.front().body = {{.kind = ActionKind::evaluate, .module = "spare"}};
       }},
      {"scenario: script.segments[0].body[0] (capture): a capture before any forward, when there is no loss",
       [](Scenario& s) { s.script.segments.front().body = {{ActionKind::capture}, {ActionKind::forward}}; }},
      {"scenario: script.segments[0].body[1] (step): a step between a forward and its backward, which needs the "
       "parameters as they were",
       [](Scenario& s) {
         s.script.segments.front().body = {{ActionKind::forward}, {ActionKind::step}, {ActionKind::backward}};
       }},
      {"scenario: script.segments[0].body[3] (step): after a backward that is not the last: no call has waited for its "
       "reductions yet",
       [](Scenario& s) {
         s.script.segments.front().body = {{.kind = ActionKind::set_is_last_backward, .value = false},
                                           {ActionKind::forward},
                                           {ActionKind::backward},
                                           {ActionKind::step}};
       }},
      {"scenario: model.root.children[1] (\"wide\"): knows 2 tokens, but the model gets 4",
       [](Scenario& s) {
         s.model.root.children = {{.name = "first", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 4}};
         s.model.root.children.insert(s.model.root.children.begin(),
                                      {.name = "aside", .kind = ModuleKind::discard, .children = {}});
         s.model.root.children.front().children = {s.model.root.children.back()};
         s.model.root.children.back() = {.name = "wide", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 2};
       }},
      {"scenario: script.segments[0].body[0] (evaluate): \"0\" outputs 2 classes, but targets have 4",
       [](Scenario& s) {
         const auto layer = [](const char* name, std::int64_t in, std::int64_t out) {
           return Module{.name = name, .kind = ModuleKind::linear, .in_features = in, .out_features = out};
         };
         s.model.root.children = {layer("0", 4, 2), layer("1", 2, 4)};
         s.model.loss = {.kind = LossKind::cross_entropy};
         s.script.segments.front().body = {{.kind = ActionKind::evaluate, .module = "0"}};
       }},
      {"scenario: script.segments[0].body[0] (clip_grad_norm): expected a positive max_norm and norm_type, found 0 and "
       "2",
       [](Scenario& s) { s.script.segments.front().body = {{ActionKind::clip_grad_norm}}; }},
      {"scenario: script.segments[0].iterations: expected an integer of at least 1, found 0",
       [](Scenario& s) { s.script.segments.front().iterations = 0; }},
      {"scenario: script.segments[0].body[0] (backward): rank 0 has run no forward before it",
       [](Scenario& s) { s.script.segments.front().body = {{ActionKind::backward}}; }},
      {"scenario: script.segments[1].body[0] (backward): rank 0 has run no forward before it",
       [](Scenario& s) {
         s.script.segments = {{.body = {{ActionKind::forward}}}, {.iterations = 2, .body = {{ActionKind::backward}}}};
       }},
      {"scenario: script.segments[0].body[1] (step): a step between a forward and its backward, which needs the "
       "parameters as they were",
       [](Scenario& s) { s.script.segments.front().body = {{ActionKind::forward}, {ActionKind::step}}; }},
      {"scenario: script.segments[0].body[1] (backward): rank 0 has run no forward before it",
       [](Scenario& s) {
         s.script.segments.front().body = {{.kind = ActionKind::forward, .ranks = {1}}, {ActionKind::backward}};
       }},
      {"scenario: script.segments[0].body[0].ranks: expected ranks from 0 on, ascending, each once",
       [](Scenario& s) { s.script.segments.front().body = {{.kind = ActionKind::step, .ranks = {1, 1}}}; }},
      {"scenario: script.segments[0].body[0].ranks: expected ranks from 0 on, ascending, each once",
       [](Scenario& s) { s.script.segments.front().body = {{.kind = ActionKind::step, .ranks = {-1}}}; }},
      {"scenario: script.segments[0].body[0].fails_on: expected ranks from 0 on, ascending, each once",
       [](Scenario& s) {
         s.script.segments.front().body = {{.kind = ActionKind::register_hook, .hook = Hook{.fails_on = {1, 0}}}};
       }},
      {"scenario: script.segments[0].body[0] (register_hook): says no hook",
       [](Scenario& s) { s.script.segments.front().body = {{.kind = ActionKind::register_hook}}; }},
      {"scenario: script.segments[0].body[0].paths.x: the model has no module \"x\"; there are \"\", \"0\", "
       "\"0.linear\", \"0.relu\", \"1\", \"1.linear\", \"1.relu\"",
       [](Scenario& s) { s.script.segments.front().body = {{.kind = ActionKind::forward, .paths = {{"x", "a"}}}}; }},
      {"scenario: script.segments[0].body[0].paths.0: \"0\" is a sequential, not a choice",
       [](Scenario& s) {
         s.script.segments.front().body = {{.kind = ActionKind::forward, .paths = {{"0", "linear"}}}};
       }},
      {"scenario: script.segments[0].body[0].paths.0: the choice \"0\" has no child \"other\"; there are \"linear\", "
       "\"relu\"",
       [](Scenario& s) {
         s.model.root.children[0].kind = ModuleKind::choice;
         s.script.segments.front().body = {{.kind = ActionKind::forward, .paths = {{"0", "other"}}}};
       }},
      {"scenario: script.segments[0].body[0].paths.0: the choice \"0\" does not run",
       [](Scenario& s) {
         s.model.root.children[0].kind = ModuleKind::choice;
         s.script.segments.front().body = {{.kind = ActionKind::forward, .module = "1", .paths = {{"0", "relu"}}}};
       }},
      {"scenario: model.root.children[0] (\"0\"): a choice has at least one child",
       [](Scenario& s) { s.model.root.children[0] = {.name = "0", .kind = ModuleKind::choice}; }},
      {"scenario: plan.optimizer.momentum: expected a number that is not negative, found -0.5",
       [](Scenario& s) { s.plan.optimizer.momentum = -0.5; }},
      {"scenario: plan.optimizer.beta2: expected a number of at least 0 and less than 1, found 5",
       [](Scenario& s) { s.plan.optimizer.beta2 = 5; }},
      {"scenario: plan.optimizer.epsilon: expected a number that is not negative, found -1",
       [](Scenario& s) { s.plan.optimizer.epsilon = -1; }},
      {"scenario: plan.fully_shard.live_reduce_inputs: expected an integer from 1 to 1048576, found 0",
       [](Scenario& s) { fully_shard_plan(s.plan).live_reduce_inputs = 0; }},
      {"scenario: costs.collectives.all_gather.tagged.x: no collective has the tag \"x\"; there are \"\", \"0\", "
       "\"1\", \"extension sizes\", \"gradient norm\"",
       [](Scenario& s) { s.costs.tagged_collectives[{CollectiveKind::all_gather, "x"}] = 1; }},
      {"scenario: costs.work.forward.labelled.x: the model has no module \"x\"; there are \"\", \"0\", "
       "\"0.linear\", \"0.relu\", \"1\", \"1.linear\", \"1.relu\"",
       [](Scenario& s) { s.costs.labelled_work[{WorkKind::forward, "x"}] = 1; }},
      {"scenario: costs.work.forward.labelled.0: \"0\" is a sequential, which does no such work itself: label a module "
       "in it",
       [](Scenario& s) { s.costs.labelled_work[{WorkKind::forward, "0"}] = 1; }},
      {"scenario: costs.work.optimizer.labelled.x: the model has no parameter \"x\"; there are \"0.linear.weight\", "
       "\"1.linear.weight\"",
       [](Scenario& s) { s.costs.labelled_work[{WorkKind::optimizer, "x"}] = 1; }},
      {"scenario: costs.work.copy_in.labelled.\"0.linear\": the plan has no group \"0.linear\"; there are \"\", \"0\", "
       "\"1\"",
       [](Scenario& s) { s.costs.labelled_work[{WorkKind::copy_in, "0.linear"}] = 1; }},
      {"scenario: model.init_divisor: expected an integer from 1 to 2147483647, found 0",
       [](Scenario& s) { s.model.init_divisor = 0; }},
      {"scenario: script.input_divisor: expected an integer from 1 to 2147483647, found 0",
       [](Scenario& s) { s.script.input_divisor = 0; }},
      {"scenario: model.loss.divisor: expected a positive number, found 0",
       [](Scenario& s) { s.model.loss.divisor = 0; }},
      {"scenario: model.loss.divisor: expected a positive number, found nan",
       [](Scenario& s) { s.model.loss.divisor = std::nan(""); }},
      {"scenario: model.loss.divisor: expected an integer from 1 to 2147483647 for a dot, found 0.5",
       [](Scenario& s) { s.model.loss = {LossKind::dot, 0.5}; }},
      {"scenario: model.loss.divisor: expected an integer from 1 to 2147483647 for a dot, found 4000000000",
       [](Scenario& s) { s.model.loss = {LossKind::dot, 4e9}; }},
      {"scenario: model.root.children[0].children[1] (\"0.relu\"): only a linear module sleeps",
       [](Scenario& s) { s.model.root.children[0].children[1].backward_sleep = 1; }},
      {"scenario: model.root.children[0] (\"0\"): only a linear module sleeps",
       [](Scenario& s) { s.model.root.children[0].forward_sleep = 1; }},
      {"scenario: plan.fully_shard.wrap[1].modules[0]: \"1\" comes after \"\": list children before parents",
       [](Scenario& s) { std::swap(fully_shard_plan(s.plan).wrap[0], fully_shard_plan(s.plan).wrap[2]); }},
      {"scenario: plan.fully_shard.wrap[2].modules[0]: \"1.linear\" comes after \"1\": list children before parents",
       [](Scenario& s) {
         fully_shard_plan(s.plan).wrap.insert(fully_shard_plan(s.plan).wrap.begin() + 2, {.modules = {"1.linear"}});
       }},
      {"scenario: costs.work.forward: expected a duration that is not negative, found -1 ns",
       [](Scenario& s) { s.costs.work[WorkKind::forward] = -1; }},
      {"scenario: costs.work.forward.labelled.\"0.linear\": expected a duration that is not negative, found -1 ns",
       [](Scenario& s) { s.costs.labelled_work[{WorkKind::forward, "0.linear"}] = -1; }},
      {"scenario: costs.collectives.all_gather.fixed: expected a duration that is not negative, found -1 ns",
       [](Scenario& s) { s.costs.collectives[CollectiveKind::all_gather].fixed = -1; }},
      {"scenario: costs.collectives.all_gather.per_kib: expected a duration that is not negative, found -1 ns",
       [](Scenario& s) { s.costs.collectives[CollectiveKind::all_gather].per_kib = -1; }},
      {"scenario: costs.collectives.all_gather.tagged.0: expected a duration that is not negative, found -1 ns",
       [](Scenario& s) { s.costs.tagged_collectives[{CollectiveKind::all_gather, "0"}] = -1; }},
      {"scenario: costs.imagined_ranks: expected an integer from 2 to 1024, found 1",
       [](Scenario& s) { s.device.imagined_ranks = 1; }},
      {"scenario: costs.imagined_ranks: the plan has a mesh of two dimensions: the other ranks of its groups cannot be "
       "imagined",
       [](Scenario& s) {
         s.device.imagined_ranks = 4;
         s.plan.mesh = {.shape = {2, 2}, .names = {"a", "b"}};
       }},
      {"scenario: costs.imagined_ranks: group \"0\" is resharded over fewer ranks: the other ranks of its groups "
       "cannot be imagined",
       [](Scenario& s) {
         s.device.imagined_ranks = 4;
         fully_shard_plan(s.plan).wrap[0].reshard_after_forward = {ReshardAfterForward::Kind::size, 2};
       }},
      {"scenario: model.root.children[0].children[1] (\"0.relu\"): only a linear module or a convolution can have a "
       "weight that is not plain",
       [](Scenario& s) { s.model.root.children[0].children[1].tensor = TensorKind::low_precision; }},
      {"scenario: model.root.children[1].children[0] (\"1.linear\"): it shares the weight of \"0.linear\": set the "
       "kind of tensor there",
       [](Scenario& s) {
         s.model.root.children[1].children[0].tied_to = "0.linear";
         s.model.root.children[1].children[0].tensor = TensorKind::low_precision;
       }},
      {"scenario: model: \"0.linear.weight\" is a pair, and \"1.linear.weight\" is tied to it",
       [](Scenario& s) {
         s.model.root.children[1].children[0].tied_to = "0.linear";
         s.model.root.children[0].children[0].tensor = TensorKind::two_tensor;
       }},
      {"scenario: model.root.children[2] (\"2\"): a convolution module needs at least one feature on each side, not 4 "
       "-> 0",
       [](Scenario& s) {
         s.model.root.children.push_back(
             {.name = "2", .kind = ModuleKind::convolution, .in_features = 4, .channels = 2});
       }},
      {"scenario: model.root.children[2] (\"2\"): 3 channels do not divide its 4 input features: choose a divisor of 4",
       [](Scenario& s) {
         s.model.root.children.push_back(
             {.name = "2", .kind = ModuleKind::convolution, .in_features = 4, .out_features = 4, .channels = 3});
       }},
      {"scenario: model.root.children[2] (\"2\"): 0 channels do not divide its 4 input features: choose a divisor of 4",
       [](Scenario& s) {
         s.model.root.children.push_back(
             {.name = "2", .kind = ModuleKind::convolution, .in_features = 4, .out_features = 4});
       }},
      {"scenario: model.root.children[2] (\"2\"): takes 6 features, but 4 arrive",
       [](Scenario& s) {
         s.model.root.children.push_back(
             {.name = "2", .kind = ModuleKind::convolution, .in_features = 6, .out_features = 4, .channels = 3});
       }},
      {"scenario: plan.mixed_precision.param: expected f32, bf16 or f16, found f64",
       [](Scenario& s) { s.plan.mixed_precision.param = DType::f64; }},
      {"scenario: plan.mixed_precision.reduce: expected f32, bf16 or f16, found i8",
       [](Scenario& s) { s.plan.mixed_precision.reduce = DType::i8; }},
      {"scenario: plan.mixed_precision.output: expected f32, bf16 or f16, found i64",
       [](Scenario& s) { s.plan.mixed_precision.output = DType::i64; }},
      {"scenario: script.given: the model takes tokens, and tokens come only from the formula: leave `given` out",
       [](Scenario& s) {
         s.model.root.children.insert(s.model.root.children.begin(),
                                      {.name = "first", .kind = ModuleKind::embedding, .features = 4, .vocabulary = 2});
         s.script.given = {{std::vector<double>(8)}};
       }},
      {"scenario: script.given[1]: the input of at least one rank",
       [](Scenario& s) { s.script.given = {{std::vector<double>(8)}, {}}; }},
      {"scenario: script.given[0][1]: expected 8 numbers for an input [2, 4], found 7",
       [](Scenario& s) { s.script.given = {{std::vector<double>(8), std::vector<double>(7)}}; }},
      {"scenario: script.given[0][0]: expected a finite number of f32, at most 3.4028235e+38 in size, found 1e+39",
       [](Scenario& s) { s.script.given = {{std::vector<double>(8, 1e39)}}; }},
      {"scenario: script.given[0][0]: expected a finite number of f32, at most 3.4028235e+38 in size, found nan",
       [](Scenario& s) { s.script.given = {{std::vector<double>(8, std::nan(""))}}; }},
      {"scenario: costs.host_call: expected a duration that is not negative, found -1 ns",
       [](Scenario& s) { s.costs.host_call = -1; }},
  };
  for (const Wrong& wrong : all) {
    Scenario scenario = sleeping_stack(2);
    wrong.spoil(scenario);
    CHECK_THROWS_MATCHES(validate(scenario), std::invalid_argument, Catch::Matchers::Message(wrong.message));
  }
}

TEST_CASE("a scenario error says why a parameter cannot be extended, materialized or initialized") {
  struct Wrong {
    const char* message;
    Action action;
    std::function<void(Scenario&)> spoil = [](Scenario&) {};
  };
  const auto extend = [](Extension extension) {
    return Action{.kind = ActionKind::extend, .extension = std::move(extension)};
  };
  const Extension of_weight{.parameter = "0.linear.weight"}, of_pairs{.tensor = TensorKind::two_tensor};
  const auto pair = [](Scenario& s) { s.model.root.children[0].children[0].tensor = TensorKind::two_tensor; };
  const auto meta = [](Scenario& s) { s.plan.initialisation = Initialisation::meta; };
  const std::vector<Wrong> all{
      {" (extend): says no extension", {.kind = ActionKind::extend}},
      {" (extend): names no parameter and no kind other than plain", extend({})},
      {" (extend): is for \"0.linear.weight\" and also for all that are two_tensor: keep one of the two",
       extend({.parameter = "0.linear.weight", .tensor = TensorKind::two_tensor})},
      {" (extend): the model has no parameter \"0.weight\"; there are \"0.linear.weight\", \"1.linear.weight\"",
       extend({.parameter = "0.weight"})},
      {" (extend): \"1.linear.weight\" is tied to \"0.linear.weight\": name that",
       extend({.parameter = "1.linear.weight"}),
       [](Scenario& s) { s.model.root.children[1].children[0].tied_to = "0.linear"; }},
      {" (extend): the model has no parameter that is two_tensor", extend(of_pairs)},
      {" (extend): bf16 is made of one tensor, and \"0.linear.weight\" is a pair",
       extend({.parameter = "0.linear.weight", .kind = ExtensionKind::bf16}), pair},
      {" (extend): int8 is made of one tensor, and \"0.linear.weight\" is a pair",
       extend({.tensor = TensorKind::two_tensor, .kind = ExtensionKind::int8}), pair},
      {" (extend): \"0.linear.weight\" is ignored: no rank gathers it", extend(of_weight),
       [](Scenario& s) { fully_shard_plan(s.plan).ignored_parameters = {"0.linear.weight"}; }},
      {" (extend): no wrapped module holds \"0.linear.weight\": no rank gathers it", extend(of_weight),
       [](Scenario& s) { fully_shard_plan(s.plan).wrap = {{.modules = {"1"}}}; }},
      {" (extend): \"0.linear.weight\" is sharded along dimension -1: hooks are given rows", extend(of_weight),
       [](Scenario& s) { fully_shard_plan(s.plan).shard_dims["0.linear.weight"] = -1; }},
      {" (materialize): is for a plan whose initialisation is meta", {.kind = ActionKind::materialize}},
      {" (initialize): is for a plan whose initialisation is meta", {.kind = ActionKind::initialize}},
      {".module: no parameter at or under \"0.relu\"", {.kind = ActionKind::materialize, .module = "0.relu"}, meta},
      {".module: no parameter at or under \"0.relu\"", {.kind = ActionKind::initialize, .module = "0.relu"}, meta},
  };
  for (const Wrong& wrong : all) {
    Scenario scenario = sleeping_stack(2);
    wrong.spoil(scenario);
    scenario.script.segments.front().body = {wrong.action};
    CHECK_THROWS_MATCHES(validate(scenario), std::invalid_argument,
                         Catch::Matchers::Message(std::string("scenario: script.segments[0].body[0]") + wrong.message));
  }
}

TEST_CASE("what prepares training comes before it") {
  const std::vector<Action> starts{{ActionKind::forward},
                                   {.kind = ActionKind::forward, .fails_in = ""},
                                   {ActionKind::evaluate},
                                   {.kind = ActionKind::unshard, .module = "0"}};
  for (const Action& start : starts) {
    for (const Action& late : {Action{ActionKind::materialize}, Action{ActionKind::initialize}}) {
      Scenario scenario = sleeping_stack(1);
      scenario.plan.initialisation = Initialisation::meta;
      scenario.script.segments.front().body = {late, {ActionKind::initialize}, start};
      CHECK_NOTHROW(validate(scenario));
      scenario.script.segments.front().body = {start, late};
      const std::string call(to_string(late.kind));
      CHECK_THROWS_MATCHES(
          validate(scenario), std::invalid_argument,
          Catch::Matchers::Message("scenario: script.segments[0].body[1] (" + call +
                                   "): after a forward, evaluate or unshard, which has started training"));
    }
  }
}

TEST_CASE("parameters that have memory have values when training starts") {
  Scenario scenario = sleeping_stack(2);
  scenario.plan.initialisation = Initialisation::meta;
  std::vector<Action>& body = scenario.script.segments.front().body;
  const Action materialize{ActionKind::materialize}, initialize{ActionKind::initialize};
  const auto of = [](Action action, const char* module) {
    action.module = module;
    return action;
  };
  const auto complaint = [&](int call, const std::string& start, const std::string& parameter) {
    const std::string place = "scenario: script.segments[0].body[" + std::to_string(call) + "] (" + start;
    return Catch::Matchers::Message(place + "): parameter \"" + parameter +
                                    "\" has memory but no values since its last materialize: initialize it first");
  };
  const std::vector<std::pair<std::string, Action>> starts{{"forward", {ActionKind::forward}},
                                                           {"forward", {.kind = ActionKind::forward, .fails_in = "0"}},
                                                           {"evaluate", {ActionKind::evaluate}},
                                                           {"unshard", {.kind = ActionKind::unshard, .module = "1"}}};
  for (const auto& [call, start] : starts) {
    CAPTURE(call);
    body = {materialize, start};
    CHECK_THROWS_MATCHES(validate(scenario), std::invalid_argument, complaint(1, call, "0.linear.weight"));
    body = {initialize, materialize, start};
    CHECK_THROWS_MATCHES(validate(scenario), std::invalid_argument, complaint(2, call, "0.linear.weight"));
    body = {materialize, initialize, of(materialize, "1"), start};
    CHECK_THROWS_MATCHES(validate(scenario), std::invalid_argument, complaint(3, call, "1.linear.weight"));
    body = {materialize, of(initialize, "0.linear"), start};
    CHECK_THROWS_MATCHES(validate(scenario), std::invalid_argument, complaint(2, call, "1.linear.weight"));
    body = {materialize, initialize, start};
    CHECK_NOTHROW(validate(scenario));
    body = {of(materialize, "0"), of(initialize, "0"), start};
    CHECK_NOTHROW(validate(scenario));  // those of "1" are meta still: engines refuse them
  }
}

TEST_CASE("a parameter is of the deepest group that holds it, and of none where it is ignored") {
  Scenario scenario = sleeping_stack(2);
  const std::vector<WrapGroup>& wrap = fully_shard_plan(scenario.plan).wrap;
  CHECK(fully_shard_plan(scenario.plan).group_of("0.linear.weight") == &wrap[0]);
  CHECK(fully_shard_plan(scenario.plan).group_of("1.linear.weight") == &wrap[1]);
  CHECK(fully_shard_plan(scenario.plan).group_of("head.weight") == &wrap[2]);  // the root's
  fully_shard_plan(scenario.plan).ignored_parameters = {"0.linear.weight"};
  CHECK(fully_shard_plan(scenario.plan).group_of("0.linear.weight") == nullptr);
  fully_shard_plan(scenario.plan).wrap.pop_back();
  CHECK(fully_shard_plan(scenario.plan).group_of("head.weight") == nullptr);
}

TEST_CASE("what engines refuse themselves is left to them") {
  Scenario scenario = sleeping_stack(1);
  scenario.plan.initialisation = Initialisation::meta;
  CHECK_NOTHROW(validate(scenario));  // still meta at the first forward
  scenario.plan.initialisation = Initialisation::direct;
  scenario.model.root.children[0].children[0].tensor = TensorKind::two_tensor;
  CHECK_NOTHROW(validate(scenario));  // a pair that nothing extends
  fully_shard_plan(scenario.plan).wrap[0].reshard_after_forward = {ReshardAfterForward::Kind::size,
                                                                   2};  // which may be all ranks, or more
  scenario.model.root.children[0].children[0].contiguous = false;
  fully_shard_plan(scenario.plan).shard_dims["0.linear.weight"] = -2;  // which is 0
  scenario.script.segments.front().body = {{.kind = ActionKind::extend,
                                            .extension = Extension{.tensor = TensorKind::two_tensor,
                                                                   .kind = ExtensionKind::truncated,
                                                                   .form = ExtensionForm::minimal,
                                                                   .pre = false,
                                                                   .post = false}}};
  CHECK_NOTHROW(validate(scenario));
  std::vector<Action>& body = scenario.script.segments.front().body;
  body.insert(body.begin(), Action{ActionKind::forward});
  CHECK_NOTHROW(validate(scenario));  // an extension that comes too late
}
