#include "harness/scenario/exactness.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/plan/replicate.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <string>
#include <vector>

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

Module linear(std::string name, std::int64_t in, std::int64_t out) {
  return {.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
}

// Integers; two layers; so many steps.
Scenario two_layers(int steps) {
  Scenario scenario;
  scenario.model.root.children = {linear("0", 2, 2), linear("1", 2, 1)};
  scenario.model.init_divisor = scenario.script.input_divisor = 1;
  fully_shard_plan(scenario.plan).wrap = {{.modules = {""}}};
  scenario.plan.optimizer.rate = 1;
  scenario.script.input = {1, 2};
  scenario.script.segments = {{.iterations = steps,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  return scenario;
}

std::vector<bool> changed(const std::function<void(Scenario&)>& change, int ranks = 2) {
  Scenario scenario = two_layers(1);
  change(scenario);
  return exact_captures(scenario, ranks);
}

using Exact = std::vector<bool>;

}  // namespace

TEST_CASE("a hook instead of reductions decides by what gradients are divided, and in which dtype they are added") {
  const auto hooked = [](HookKind kind, int ranks, bool direct = false) {
    Scenario scenario = two_layers(1);
    scenario.plan.engine = {};
    flat_shard_plan(scenario.plan).wrap = {""};
    scenario.script.segments.insert(
        scenario.script.segments.begin(),
        {.body = {{.kind = ActionKind::register_hook, .hook = Hook{.kind = kind, .direct = direct}}}});
    scenario.script.segments.push_back({.body = {{ActionKind::step},
                                                 {ActionKind::zero_grad},
                                                 {ActionKind::forward},
                                                 {ActionKind::backward},
                                                 {ActionKind::capture}}});
    return exact_captures(scenario, ranks);
  };
  CHECK(hooked(HookKind::plain, 2) == Exact{true, true});
  CHECK(hooked(HookKind::plain, 3) == Exact{true, false});
  CHECK(hooked(HookKind::sum, 3) == Exact{true, true});
  CHECK(hooked(HookKind::doubled, 2) == Exact{true, true});
  CHECK(hooked(HookKind::fp16_compress, 2).front());
  CHECK(hooked(HookKind::plain, 2, true) == Exact{false, false});
}

TEST_CASE("whole gradients are followed through the reductions that replace them") {
  const auto replicated = [](int ranks, std::optional<HookKind> hook, int backwards) {
    Scenario scenario = two_layers(1);
    scenario.plan.engine = {};
    replicate_plan(scenario.plan);
    scenario.script.segments = {{backwards, {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}}};
    if (hook)
      scenario.script.segments.insert(scenario.script.segments.begin(),
                                      {.body = {{.kind = ActionKind::register_hook, .hook = Hook{.kind = *hook}}}});
    return exact_captures(scenario, ranks);
  };
  CHECK(replicated(2, std::nullopt, 3) == Exact{true, true, true});
  // An engine divides each summand, or multiplies it by an inverse; a hook divides the sum.
  CHECK(replicated(3, std::nullopt, 1) == Exact{false});
  CHECK(replicated(3, HookKind::plain, 1) == Exact{true});
  CHECK(replicated(3, HookKind::sum, 2) == Exact{true, true});
  // Each backward divides once more what earlier ones left, or adds it up over ranks once more.
  for (const std::optional<HookKind> hook : {std::optional<HookKind>(), std::optional(HookKind::sum)}) {
    const Exact many = replicated(4, hook, 30);
    CHECK(many.front());
    CHECK_FALSE(many.back());
  }
}

TEST_CASE("values are exact until they outgrow the 24 bits that all their sums must fit into") {
  const Exact exact = exact_captures(two_layers(8), 2);
  REQUIRE(exact.size() == 8);
  CHECK(exact[0]);
  CHECK(exact[1]);
  CHECK_FALSE(exact[7]);
  // A rounded value stays rounded.
  CHECK(std::ranges::is_sorted(exact, std::greater()));
  // A wider layer comes there earlier, and one alone, whose gradient does not depend on it, never.
  Scenario wide = two_layers(8);
  wide.model.root.children = {linear("0", 2, 1000), linear("1", 1000, 1)};
  CHECK(std::ranges::count(exact_captures(wide, 2), true) < std::ranges::count(exact, true));
  Scenario alone = two_layers(8);
  alone.model.root.children = {linear("0", 2, 1)};
  CHECK(exact_captures(alone, 2) == Exact(8, true));
}

TEST_CASE("a convolution is as exact as the linear layer with its weight as a matrix") {
  for (const int ranks : {2, 3}) {
    const Scenario linears = two_layers(8);
    Scenario convolutions = linears;
    for (Module& module : convolutions.model.root.children) {
      module.kind = ModuleKind::convolution;
      module.channels = 2;
    }
    CHECK(exact_captures(convolutions, ranks) == exact_captures(linears, ranks));
  }
}

TEST_CASE("a mean over three ranks is rounded once: all agree on it, and on no sum over it") {
  CHECK(exact_captures(two_layers(2), 3) == Exact{true, false});
  CHECK(exact_captures(two_layers(2), 4) == Exact{true, true});
  CHECK(changed([](Scenario& s) {
          fully_shard_plan(s.plan).gradient_divide_factor = 3;
          s.script.segments.front().iterations = 2;
        }) == Exact{true, false});
}

TEST_CASE("division, roots and clipping end exactness") {
  CHECK(changed([](Scenario&) {}) == Exact{true});
  CHECK_FALSE(changed([](Scenario& s) { s.plan.optimizer.rate = 0.3; }).front());
  CHECK_FALSE(changed([](Scenario& s) { s.model.init_divisor = 3; }).front());
  CHECK_FALSE(changed([](Scenario& s) { s.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 3}; }).front());
  CHECK(changed([](Scenario& s) { s.model.loss = {.kind = LossKind::sum_of_squares, .divisor = 4}; }).front());
  CHECK_FALSE(changed([](Scenario& s) {
                s.script.segments.front().body.insert(s.script.segments.front().body.begin() + 2,
                                                      {.kind = ActionKind::clip_grad_norm, .max_norm = 1});
              }).front());
  CHECK_FALSE(changed([](Scenario& s) {
                s.model.root.children.push_back({.name = "norm", .kind = ModuleKind::layer_norm, .features = 1});
              }).front());
  CHECK_FALSE(changed([](Scenario& s) { s.device.imagined_ranks = 2; }, 1).front());
}

TEST_CASE("a module that takes no part in the loss does not affect exactness") {
  const Module norm{.name = "norm", .kind = ModuleKind::layer_norm, .features = 2};
  CHECK(changed([&](Scenario& s) {
          s.model.root.children.insert(s.model.root.children.begin(),
                                       Module{.name = "aside", .kind = ModuleKind::discard, .children = {norm}});
        }) == Exact{true});
}

TEST_CASE("Adam takes a root: values before its step are the same everywhere, and values after it are not") {
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::adamw}) {
    const auto adam = [kind](Scenario& s) {
      s.plan.optimizer = {.kind = kind, .rate = 0.01};
      auto& body = s.script.segments.front().body;
      body.insert(std::ranges::find(body, ActionKind::step, &Action::kind), Action{ActionKind::capture});
    };
    CHECK(changed(adam) == Exact{true, false});
  }
}

TEST_CASE("inputs that are given count by their bits") {
  CHECK(changed([](Scenario& s) { s.script.given = {{{1, -3}}}; }).front());
  CHECK(changed([](Scenario& s) { s.script.given = {{{0, 0.5}}}; }).front());
  CHECK_FALSE(changed([](Scenario& s) { s.script.given = {{{1, 0.1}}}; }).front());
}

TEST_CASE("low precision rounds in the same places; sums are in f32 all the same") {
  CHECK(changed([](Scenario& s) { s.plan.mixed_precision.param = DType::bf16; }).front());
  // Beyond 65504 half precision has no numbers.
  CHECK_FALSE(changed([](Scenario& s) {
                s.plan.mixed_precision.param = DType::f16;
                s.script.given = {{{60000, 1}}};
              }).front());
}

TEST_CASE("what a module keeps in low precision is rounded in the same places, and outgrows half precision sooner") {
  const auto low = [](DType dtype, double input) -> bool {
    return changed([&](Scenario& s) {
             s.plan.engine = {};
             replicate_plan(s.plan).parameter_dtypes = {{"0", dtype}};
             s.script.given = {{{input, 1}}};
           })
        .front();
  };
  CHECK(low(DType::bf16, 60000));
  CHECK(low(DType::f16, 1000));
  CHECK_FALSE(low(DType::f16, 60000));
}

TEST_CASE("an evaluation leaves its loss, and nothing to the backward that follows") {
  CHECK(changed([](Scenario& s) {
          auto& body = s.script.segments.front().body;
          body.insert(body.begin() + 1, Action{ActionKind::evaluate});
        }) == Exact{true});
}

namespace {

// A choice of two layers; what is done once.
Scenario two_ways(std::vector<Action> body) {
  Scenario scenario = two_layers(1);
  const Module norm{.name = "norm", .kind = ModuleKind::layer_norm, .features = 1};
  const Module careful{.name = "careful", .kind = ModuleKind::sequential, .children = {linear("0", 2, 1), norm}};
  scenario.model.root.children = {
      {.name = "way", .kind = ModuleKind::choice, .children = {linear("plain", 2, 1), careful}}};
  scenario.script.segments = {{1, std::move(body)}};
  return scenario;
}

const Action backward{ActionKind::backward}, step{ActionKind::step}, capture{ActionKind::capture};
const Action plain{ActionKind::forward}, careful{.kind = ActionKind::forward, .paths = {{"way", "careful"}}};

Action on(std::vector<int> ranks, Action action) {
  action.ranks = std::move(ranks);
  return action;
}

Exact exact(std::vector<Action> body) { return exact_captures(two_ways(std::move(body)), 2); }

}  // namespace

TEST_CASE("a forward is as exact as the path that it takes") {
  CHECK(exact({plain, backward, step, capture}) == Exact{true});
  CHECK(exact({careful, backward, step, capture}) == Exact{false});
  CHECK(exact({careful, plain, capture}) == Exact{true});  // the loss of the last one, and no gradient yet
  CHECK(exact({careful, plain, backward, capture}) == Exact{false});
  CHECK(exact({on({1}, careful), on({0}, plain), capture}) == Exact{false});
  CHECK(exact({on({1}, careful), plain, backward, capture}) == Exact{false});
  CHECK(exact({plain, on({1}, plain), backward, capture}) == Exact{true});
}

TEST_CASE("gradients of several forwards are one sum") {
  Scenario scenario = two_layers(1);
  const auto summed = [&](std::size_t forwards) -> bool {
    std::vector<Action> body(forwards, {ActionKind::forward});
    body.insert(body.end(), {backward, capture});
    scenario.script.segments = {{1, std::move(body)}};
    return exact_captures(scenario, 2).back();
  };
  scenario.script.given = {{{3000, 1}}};
  CHECK(summed(2));
  CHECK_FALSE(summed(1000));
  scenario.script.given = {};
  CHECK(summed(1000));
  scenario.plan.mixed_precision.param = DType::bf16;
  CHECK_FALSE(summed(3));
}

TEST_CASE("gradients that are set to zero are exact again, unless a rank keeps its own") {
  const Action zeros{.kind = ActionKind::zero_grad, .to_zero = true};
  CHECK(exact({careful, backward, plain, capture}) == Exact{false});
  CHECK(exact({careful, backward, plain, zeros, capture, step, capture}) == Exact{true, true});
  CHECK(exact({careful, backward, plain, on({0}, zeros), capture}) == Exact{false});
  CHECK(exact({careful, backward, plain, on({0}, {ActionKind::zero_grad}), capture}) == Exact{false});
  CHECK(exact({careful, backward, plain, {ActionKind::zero_grad}, capture}) == Exact{true});
}

TEST_CASE("nothing is exact after a gradient hook at another point, unless engines refuse it") {
  const auto with_hook = [](bool refused) {
    return changed([&](Scenario& s) {
      std::vector<Action>& body = s.script.segments.front().body;
      body.insert(body.begin(),
                  {.kind = ActionKind::register_hook,
                   .hook = Hook{.kind = HookKind::doubled, .point = HookPoint::after_reduction, .refused = refused}});
    });
  };
  CHECK(with_hook(false) == Exact{false});
  CHECK(with_hook(true) == Exact{true});
}

TEST_CASE("a momentum that is no power of two is exact until it multiplies") {
  const auto steps = [](double momentum, double rate) {
    Scenario scenario = two_layers(2);
    scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = rate, .momentum = momentum};
    return exact_captures(scenario, 2);
  };
  CHECK(steps(0.5, 1) == Exact{true, true});
  CHECK(steps(0.3, 1) == Exact{true, false});
  // The part of early gradients that momentum keeps needs more and more bits.
  Scenario scenario = two_layers(30);
  scenario.model.root.children = {linear("0", 2, 1)};
  CHECK(exact_captures(scenario, 2) == Exact(30, true));
  scenario.plan.optimizer.momentum = 0.25;
  CHECK_FALSE(exact_captures(scenario, 2).back());
}
