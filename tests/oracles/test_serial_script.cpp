// The effect of a script's calls on gradients and parameters in the serial model, computed by hand.
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/oracles/scenarios.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;

namespace {

using Values = std::vector<double>;

}  // namespace

TEST_CASE("the formula is what the scenario says it is") {
  // The oracle has its own; both must be the one of golden/README.md.
  Scenario scenario = sharded({linear("a", 3, 2), linear("b", 2, 4)});
  scenario.script.input = {1, 3};
  scenario.script.segments = {{1, {{ActionKind::capture}}}};
  const SerialIteration start = train_serially(scenario, 1, Arithmetic::f64).at(0);
  REQUIRE(start.parameters.size() == 4);
  for (std::size_t j = 0; j < 4; ++j) {
    const NamedValues& parameter = start.parameters[j];
    for (std::size_t i = 0; i < parameter.values.size(); ++i) {
      CHECK(parameter.values[i] ==
            formula::small_integer(static_cast<std::uint32_t>(1 + j), static_cast<std::uint32_t>(i)) / 8.0);
    }
  }
  CHECK(start.parameters[2].name == "b.weight");
  CHECK(start.parameters[2].shape == Shape{4, 2});
  CHECK_FALSE(start.gradients[0].defined());
}

TEST_CASE("gradients are means over ranks and accumulate until zero_grad") {
  Scenario scenario = one_weight();
  const std::vector<Action> accumulate = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}};
  std::vector<Action> drop = accumulate;
  drop.push_back({ActionKind::zero_grad});
  drop.push_back({ActionKind::capture});
  scenario.script.segments = {{1, accumulate}, {1, drop}};
  const std::vector<SerialIteration> trained = train_serially(scenario, 3, Arithmetic::f64);
  REQUIRE(trained.size() == 3);
  const auto mean = [](int iteration) { return (input(iteration, 0) + input(iteration, 1) + input(iteration, 2)) / 3; };
  CHECK(trained[0].gradients.at(0).values == std::vector<double>{mean(0)});
  CHECK(trained[1].gradients.at(0).values == std::vector<double>{mean(0) + mean(1)});
  CHECK_FALSE(trained[2].gradients.at(0).defined());
  CHECK(trained[1].parameters.at(0).values == trained[0].parameters.at(0).values);  // no step, no move
}

TEST_CASE("f32 arithmetic divides the sum, not the summands") {
  Scenario scenario = one_weight();
  scenario.script.segments = {{1, {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}}};
  for (const int world : {3, 5, 7}) {
    float sum = 0;
    for (int rank = 0; rank < world; ++rank) sum += static_cast<float>(input(0, rank));
    const SerialIteration trained = train_serially(scenario, world, Arithmetic::f32).at(0);
    CHECK(trained.gradients.at(0).values.at(0) == static_cast<double>(sum / static_cast<float>(world)));
  }
}

TEST_CASE("the losses: sum, squares over the divisor, dot with the row of its seed") {
  Scenario scenario = one_weight();
  scenario.script.segments = {{1, {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::capture}}}};
  const double weight = formula::small_integer(1, 0) / 8.0;
  const auto trained = [&](Loss loss) {
    scenario.model.loss = loss;
    return train_serially(scenario, 2, Arithmetic::f64).at(0);
  };
  CHECK(trained({LossKind::sum, 1, 0}).losses == std::vector<double>{weight * input(0, 0), weight * input(0, 1)});
  const SerialIteration squares = trained({LossKind::sum_of_squares, 4, 0});
  CHECK(squares.losses[1] == weight * input(0, 1) * weight * input(0, 1) / 4);
  CHECK(squares.gradients.at(0).values[0] == weight * (input(0, 0) * input(0, 0) + input(0, 1) * input(0, 1)) / 4);
  const double row = formula::small_integer(9, 0) / 2.0;
  CHECK(trained({LossKind::dot, 2, 9}).losses[0] == weight * input(0, 0) * row);
}

TEST_CASE("decay is decoupled in the serial model's AdamW") {
  Scenario scenario = one_weight();
  scenario.plan.optimizer = {.kind = OptimizerKind::adamw, .rate = 0.5, .weight_decay = 0.25};
  scenario.script.segments = {
      {1, {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::capture}}}};
  const double weight = formula::small_integer(1, 0) / 8.0, slope = input(0, 0);
  REQUIRE(slope != 0);
  const double stepped = weight * (1 - 0.5 * 0.25) - 0.5 * (slope > 0 ? 1 : -1);  // the first step of Adam is the rate
  CHECK(std::abs(train_serially(scenario, 1, Arithmetic::f64).at(0).parameters.at(0).values[0] - stepped) < 1e-6);
}

TEST_CASE("adam's decay is part of the gradient") {
  Scenario scenario = one_weight();
  scenario.plan.optimizer = {.kind = OptimizerKind::adam, .rate = 0.5, .weight_decay = 1000};
  scenario.script.segments = script({{forward, backward, step, capture}});
  const double weight = formula::small_integer(1, 0) / 8.0;
  REQUIRE(weight != 0);
  // The decayed gradient has the sign of the weight, and the first step of Adam is the rate.
  const SerialIteration trained = train_serially(scenario, 1, Arithmetic::f64).at(0);
  CHECK(std::abs(trained.parameters.at(0).values[0] - (weight - 0.5 * (weight > 0 ? 1 : -1))) < 1e-6);
  CHECK(trained.gradients.at(0).values[0] == input(0, 0));
}

TEST_CASE("a step moves only what has a gradient, and each parameter counts its own steps") {
  Scenario scenario = sharded({linear("a", 1, 1, false), frozen(linear("b", 1, 1, false))});
  scenario.plan.optimizer = {.kind = OptimizerKind::adamw, .rate = 0.5, .weight_decay = 0.5};
  scenario.script.segments = script({{step, capture}, {forward, backward, step, capture}});
  const auto trained = train_serially(scenario, 1, Arithmetic::f64);
  CHECK(trained[0].parameters[0].values[0] == formula::small_integer(1, 0) / 8.0);
  CHECK(trained[1].parameters[1].values[0] == formula::small_integer(2, 0) / 8.0);
  CHECK_FALSE(trained[1].gradients[1].defined());
  scenario.script.segments = script({{}, {forward, backward, step, capture}});
  CHECK(train_serially(scenario, 1, Arithmetic::f64)[0].parameters[0].values == trained[1].parameters[0].values);
}

TEST_CASE("each rank keeps its own copy of parameters that no group wraps or the plan ignores") {
  Scenario scenario = sharded({linear("a", 1, 1, false), linear("b", 1, 1, false)});
  scenario.script.segments = script({{forward, backward, step, capture}});
  scenario.plan.optimizer.rate = 0.5;
  const double a = formula::small_integer(1, 0) / 8.0, b = formula::small_integer(2, 0) / 8.0;
  for (const bool ignored : {false, true}) {
    if (ignored) fully_shard_plan(scenario.plan).ignored_parameters = {"a.weight"};
    else fully_shard_plan(scenario.plan).wrap[0].modules = {"b"};
    const SerialIteration trained = train_serially(scenario, 2, Arithmetic::f64).at(0);
    CHECK(trained.gradients[0].values.empty());
    CHECK(trained.gradients[0].local == std::vector<Values>{{input(0, 0) * b}, {input(0, 1) * b}});
    CHECK(trained.parameters[0].local == std::vector<Values>{{a - 0.5 * input(0, 0) * b}, {a - 0.5 * input(0, 1) * b}});
    CHECK(trained.parameters[0].tensor(1).to_doubles() == trained.parameters[0].local[1]);
    CHECK(trained.gradients[1].values == Values{(input(0, 0) + input(0, 1)) * a / 2});
    CHECK(trained.gradients[1].local.empty());
    fully_shard_plan(scenario.plan).wrap[0].modules = {""};
  }
  // From then on ranks compute with different weights.
  fully_shard_plan(scenario.plan).ignored_parameters = {"a.weight"};
  scenario.script.segments = script({{forward, backward, step, zero_grad}, {forward, capture}});
  const SerialIteration second = train_serially(scenario, 2, Arithmetic::f64).at(0);
  for (int rank = 0; rank < 2; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    CHECK(second.losses[at] == input(1, rank) * second.parameters[0].local[at][0] * second.parameters[1].values[0]);
  }
}

TEST_CASE("gradients are divided by the plan's factor instead of the number of ranks") {
  Scenario scenario = one_weight();
  fully_shard_plan(scenario.plan).gradient_divide_factor = 0.5;
  scenario.script.segments = script({{forward, backward, capture}});
  CHECK(train_serially(scenario, 3, Arithmetic::f64).at(0).gradients[0].values ==
        Values{(input(0, 0) + input(0, 1) + input(0, 2)) / 0.5});
}

TEST_CASE("without synchronization gradients wait on their ranks, and the next backward with it reduces all of them") {
  Scenario scenario = one_weight();
  const auto sync = [](bool value) { return set(ActionKind::set_requires_gradient_sync, "", value); };
  const auto mean = [](int iteration) { return (input(iteration, 0) + input(iteration, 1)) / 2; };
  scenario.script.segments =
      script({{sync(false), forward, backward, capture}, {sync(true), capture, forward, backward, capture}});
  std::vector<SerialIteration> trained = train_serially(scenario, 2, Arithmetic::f64);
  CHECK_FALSE(trained[0].gradients[0].defined());
  CHECK_FALSE(trained[1].gradients[0].defined());  // turning it on reduces nothing
  CHECK(trained[2].gradients[0].values == Values{mean(0) + mean(1)});

  scenario.script.segments = script({{forward, backward},
                                     {sync(false), forward, backward, capture},
                                     {zero_grad, capture},
                                     {sync(true), forward, backward, capture}});
  trained = train_serially(scenario, 2, Arithmetic::f64);
  CHECK(trained[0].gradients[0].values == Values{mean(0)});  // the reduced one of before
  CHECK_FALSE(trained[1].gradients[0].defined());
  CHECK(trained[2].gradients[0].values == Values{mean(3)});  // what was waiting has been dropped too
}

TEST_CASE("synchronization is set for each group at or under the path") {
  Scenario scenario =
      sharded({container(ModuleKind::sequential, "s", {linear("a", 1, 1, false)}), linear("b", 1, 1, false)});
  fully_shard_plan(scenario.plan)
      .wrap.insert(fully_shard_plan(scenario.plan).wrap.begin(),
                   {.modules = {"s.a"}, .forward_prefetch = {}, .backward_prefetch = {}});
  const auto defined = [&](const std::string& path) {
    scenario.script.segments =
        script({{set(ActionKind::set_requires_gradient_sync, path, false), forward, backward, capture}});
    const SerialIteration trained = train_serially(scenario, 2, Arithmetic::f64).at(0);
    return std::pair(trained.gradients[0].defined(), trained.gradients[1].defined());
  };
  CHECK(defined("s") == std::pair(false, true));
  CHECK(defined("s.a") == std::pair(false, true));
  CHECK(defined("") == std::pair(false, false));
}

TEST_CASE("a mesh of two dimensions means over all ranks; without its all-reduce nothing is seen until there is one") {
  Scenario scenario = one_weight();
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  const auto all_reduce = [](bool value) { return set(ActionKind::set_requires_all_reduce, "", value); };
  const auto mean = [](int iteration) {
    return (input(iteration, 0) + input(iteration, 1) + input(iteration, 2) + input(iteration, 3)) / 4;
  };
  scenario.script.segments = script({{forward, backward, capture},
                                     {zero_grad, all_reduce(false), forward, backward, capture},
                                     {forward, backward, capture},
                                     {all_reduce(true), forward, backward, capture}});
  std::vector<SerialIteration> trained = train_serially(scenario, 4, Arithmetic::f64);
  CHECK(trained[0].gradients[0].values == Values{mean(0)});
  CHECK_FALSE(trained[1].gradients[0].defined());
  CHECK_FALSE(trained[2].gradients[0].defined());
  CHECK(trained[3].gradients[0].values == Values{mean(1) + mean(2) + mean(3)});

  const Action synced = set(ActionKind::set_requires_gradient_sync, "", true);
  scenario.script.segments = script({{synced, all_reduce(false), forward, backward, capture},
                                     {all_reduce(false), synced, forward, backward, capture}});
  trained = train_serially(scenario, 4, Arithmetic::f64);
  CHECK_FALSE(trained[0].gradients[0].defined());
  CHECK(trained[1].gradients[0].values == Values{mean(0) + mean(1)});  // synchronization is with replicas too

  scenario.script.segments = script({{}, {all_reduce(false), forward, backward, capture}});
  scenario.plan.mesh = {.shape = {4}, .names = {}};  // no replicas: nothing to leave out
  trained = train_serially(scenario, 4, Arithmetic::f64);
  CHECK(trained[0].gradients[0].values == Values{mean(1)});
}

TEST_CASE("clipping takes all reduced gradients for one vector") {
  Scenario scenario = sharded({linear("a", 1, 1, false), linear("b", 1, 1, false)});
  const auto clipped = [&](double max_norm, double type) {
    const Action clip{.kind = ActionKind::clip_grad_norm, .max_norm = max_norm, .norm_type = type};
    scenario.script.segments = script({{forward, backward, capture, clip, capture}});
    return train_serially(scenario, 2, Arithmetic::f64);
  };
  for (const double type : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()}) {
    CAPTURE(type);
    const auto loose = clipped(100, type);
    const double g = loose[0].gradients[0].values[0], h = loose[0].gradients[1].values[0];
    REQUIRE(std::min(std::abs(g), std::abs(h)) > 0);
    CHECK(loose[1].gradients[0].values[0] == g);
    const double norm = std::isinf(type)
                            ? std::max(std::abs(g), std::abs(h))
                            : std::pow(std::pow(std::abs(g), type) + std::pow(std::abs(h), type), 1 / type);
    const auto tight = clipped(norm / 2, type);
    CHECK(std::abs(tight[1].gradients[0].values[0] - g / 2) < 1e-5);
    CHECK(std::abs(tight[1].gradients[1].values[0] - h / 2) < 1e-5);
  }
  fully_shard_plan(scenario.plan).ignored_parameters = {
      "b.weight"};  // in no shard: not part of the vector, and not clipped
  const auto apart = clipped(1e-3, 1);
  CHECK(std::abs(std::abs(apart[1].gradients[0].values[0]) - 1e-3) < 1e-6);
  CHECK(apart[1].gradients[1].local == apart[0].gradients[1].local);
}

TEST_CASE("an evaluation changes the loss and nothing else") {
  Scenario scenario = one_weight();
  scenario.script.segments =
      script({{forward, backward, step, zero_grad}, {forward}, {evaluate, capture, backward, capture}});
  const std::vector<SerialIteration> trained = train_serially(scenario, 2, Arithmetic::f64);
  const double weight = trained[0].parameters[0].values[0];
  CHECK(trained[0].losses == Values{weight * input(2, 0), weight * input(2, 1)});
  CHECK_FALSE(trained[0].gradients[0].defined());
  CHECK(trained[1].gradients[0].values ==
        Values{(input(1, 0) + input(1, 1)) / 2});  // of the forward, not of the evaluation
}

TEST_CASE("a forward that fails has no effect at all") {
  Scenario scenario = one_weight();
  const Action fails{.kind = ActionKind::forward, .fails_in = "l"};
  scenario.script.segments = script({{forward}, {fails, capture, backward, step, capture}});
  const std::vector<SerialIteration> trained = train_serially(scenario, 2, Arithmetic::f64);
  scenario.script.segments = script({{forward, capture, backward, step, capture}});
  const std::vector<SerialIteration> without = train_serially(scenario, 2, Arithmetic::f64);
  CHECK(trained[0].losses == without[0].losses);
  CHECK(trained[1].parameters[0].values == without[1].parameters[0].values);
}

TEST_CASE("a module that runs alone is given the script's input") {
  Scenario scenario = sharded({linear("a", 1, 1, false), linear("b", 1, 1, false)});
  scenario.script.segments = script({{{.kind = ActionKind::forward, .module = "b"}, backward, capture}});
  const SerialIteration trained = train_serially(scenario, 1, Arithmetic::f64).at(0);
  CHECK(trained.losses == Values{input(0, 0) * formula::small_integer(2, 0) / 8.0});
  CHECK_FALSE(trained.gradients[0].defined());
  CHECK(trained.gradients[1].values == Values{input(0, 0)});
}

TEST_CASE("calls that change when and where change no value") {
  Scenario scenario = one_weight();
  scenario.plan.mesh = {.shape = {2}, .names = {}};
  fully_shard_plan(scenario.plan).shard_dims = {{"l.weight", 1}};
  scenario.script.segments = script({{set(ActionKind::unshard, "", true),
                                      {.kind = ActionKind::wait_for_unshard},
                                      {.kind = ActionKind::reshard},
                                      set(ActionKind::set_reshard_after_backward, "", false),
                                      set(ActionKind::set_unshard_in_backward, "", false),
                                      set(ActionKind::set_is_last_backward, "", false),
                                      {.kind = ActionKind::post_optim_event},
                                      forward,
                                      backward,
                                      step,
                                      capture}});
  const SerialIteration trained = train_serially(scenario, 2, Arithmetic::f64).at(0);
  Scenario plain = one_weight();
  plain.script.segments = script({{forward, backward, step, capture}});
  CHECK(trained.parameters[0].values == train_serially(plain, 2, Arithmetic::f64).at(0).parameters[0].values);
}

namespace {

Action on(std::vector<int> ranks, Action action) {
  action.ranks = std::move(ranks);
  return action;
}

Action with(std::map<std::string, std::string> paths, Action action) {
  action.paths = std::move(paths);
  return action;
}

const Action zeros{.kind = ActionKind::zero_grad, .to_zero = true};

/// A choice of two weights, both of which are the root's.
Scenario two_ways() {
  return sharded({container(ModuleKind::choice, "way", {linear("a", 1, 1, false), linear("b", 1, 1, false)}),
                  use("again", "way")});
}

double initial(int parameter) { return formula::small_integer(static_cast<std::uint32_t>(1 + parameter), 0) / 8.0; }

std::string refusal(const Scenario& scenario, int world) {
  try {
    train_serially(scenario, world, Arithmetic::f64);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a choice runs its first child, or the child that the forward names, also where a use reaches it") {
  Scenario scenario = two_ways();
  scenario.script.segments = script({{forward, backward, capture},
                                     {zero_grad, with({{"way", "b"}}, forward), backward, capture},
                                     {evaluate, capture}});
  const auto trained = train_serially(scenario, 1, Arithmetic::f64);
  const double a = initial(0), b = initial(1);
  CHECK(trained[0].losses == Values{a * a * input(0, 0)});
  CHECK(trained[0].gradients[0].values == Values{2 * a * input(0, 0)});
  CHECK_FALSE(trained[0].gradients[1].defined());
  CHECK(trained[1].losses == Values{b * b * input(1, 0)});
  CHECK_FALSE(trained[1].gradients[0].defined());
  CHECK(trained[1].gradients[1].values == Values{2 * b * input(1, 0)});
  CHECK(trained[2].losses == Values{a * a * input(2, 0)});
}

TEST_CASE("a backward is of the sum of all losses since the last one") {
  Scenario scenario = two_ways();
  scenario.model.root.children.pop_back();
  scenario.script.segments =
      script({{forward, with({{"way", "b"}}, forward), evaluate, forward, backward, capture, forward},
              {forward, backward, capture}});
  const auto trained = train_serially(scenario, 1, Arithmetic::f64);
  CHECK(trained[0].losses == Values{initial(0) * input(0, 0)});
  CHECK(trained[0].gradients[0].values == Values{2 * input(0, 0)});
  CHECK(trained[0].gradients[1].values == Values{input(0, 0)});
  CHECK(trained[1].gradients[0].values == Values{3 * input(0, 0) + input(1, 0)});
}

TEST_CASE("the order of three forwards shows where their sum is rounded") {
  Scenario scenario = one_weight();
  scenario.script.given = {{{1}}, {{1 << 24}}, {{-1}}};
  const auto shows = [&](std::vector<std::vector<Action>> bodies) {
    scenario.script.segments = script(std::move(bodies));
    return train_serially(scenario, 1, Arithmetic::f32).back().order_shows;
  };
  CHECK(shows({{forward}, {forward, backward, capture}}).empty());
  CHECK(shows({{forward}, {forward}, {forward, backward, capture}}).find("gradients of several forwards") !=
        std::string::npos);
  scenario.script.given = {{{1}}, {{256}}, {{-1}}};
  CHECK(shows({{forward}, {forward}, {forward, backward, capture}}).empty());
  scenario.plan.mixed_precision.param = DType::bf16;
  CHECK(shows({{forward}, {forward}, {forward, backward, capture}}).find("low precision") != std::string::npos);
}

TEST_CASE("gradients that exist become zero and stay; what waits for a reduction is dropped") {
  Scenario scenario = two_ways();
  const Action choose_b = with({{"way", "b"}}, forward);
  const auto sync = [](bool value) { return set(ActionKind::set_requires_gradient_sync, "", value); };
  scenario.script.segments = script({{forward, backward, zeros, capture, step, capture},
                                     {zero_grad, sync(false), forward, backward, zeros, capture},
                                     {sync(true), choose_b, backward, capture}});
  const auto trained = train_serially(scenario, 2, Arithmetic::f64);
  CHECK(trained[0].gradients[0].values == Values{0});
  CHECK_FALSE(trained[0].gradients[1].defined());
  CHECK(trained[1].parameters[0].values == Values{initial(0)});
  CHECK_FALSE(trained[2].gradients[0].defined());
  CHECK_FALSE(trained[3].gradients[0].defined());
  CHECK(trained[3].gradients[1].defined());
}

TEST_CASE(
    "momentum begins with a parameter's first gradient, and goes on without a slope, but not without a gradient") {
  Scenario scenario = one_weight();
  scenario.plan.optimizer = {.kind = OptimizerKind::sgd, .rate = 0.25, .momentum = 0.5};
  scenario.script.segments = script({{forward, backward, step, capture},
                                     {zeros, step, capture},
                                     {zero_grad, step, capture},
                                     {forward, backward, step, capture}});
  const auto trained = train_serially(scenario, 1, Arithmetic::f64);
  const double first = input(0, 0), last = input(3, 0), start = initial(0);
  CHECK(trained[0].parameters[0].values == Values{start - 0.25 * first});
  CHECK(trained[1].parameters[0].values == Values{start - 0.25 * first * 1.5});
  CHECK(trained[2].parameters[0].values == Values{start - 0.25 * first * 1.5});
  CHECK(trained[3].parameters[0].values == Values{start - 0.25 * (first * 1.75 + last)});
  scenario.plan.optimizer.momentum = 0.3;
  const auto shows = train_serially(scenario, 1, Arithmetic::f32);
  CHECK(shows[0].order_shows.empty());
  CHECK(shows[3].order_shows.find("the product of the momentum and a gradient is rounded") != std::string::npos);
}

TEST_CASE("ranks that a call does not name take no part in it") {
  Scenario scenario = two_ways();
  scenario.model.root.children.pop_back();
  const Action choose_b = with({{"way", "b"}}, forward);
  scenario.script.segments =
      script({{on({0, 2}, forward), on({1}, choose_b), on({1}, forward), on({0, 2}, choose_b), backward, capture},
              {on({1}, evaluate), capture}});
  auto trained = train_serially(scenario, 3, Arithmetic::f64);
  const double sum = input(0, 0) + input(0, 1) + input(0, 2), a = initial(0), b = initial(1);
  CHECK(trained[0].gradients[0].values == Values{sum / 3});
  CHECK(trained[0].gradients[1].values == Values{sum / 3});
  CHECK(trained[0].losses == Values{b * input(0, 0), a * input(0, 1), b * input(0, 2)});
  CHECK(trained[1].losses == Values{b * input(0, 0), a * input(1, 1), b * input(0, 2)});

  // A parameter that is not reduced is each rank's own.
  fully_shard_plan(scenario.plan).ignored_parameters = {"way.a.weight"};
  scenario.script.segments = script({{forward, backward, on({0}, step), on({1}, zero_grad), on({2}, zeros), capture}});
  trained = train_serially(scenario, 3, Arithmetic::f64);
  CHECK(trained[0].parameters[0].local == std::vector<Values>{{a - 0.5 * input(0, 0)}, {a}, {a}});
  CHECK(trained[0].gradients[0].local == std::vector<Values>{{input(0, 0)}, {}, {0}});
  CHECK_FALSE(trained[0].gradients[0].tensor(1).defined());
  scenario.script.segments = script({{forward, backward, on({0}, zero_grad), capture}});
  trained = train_serially(scenario, 3, Arithmetic::f64);
  CHECK(trained[0].gradients[0].local == std::vector<Values>{{}, {input(0, 1)}, {input(0, 2)}});
}

TEST_CASE("what has no single result is refused: a reduction of some ranks, and what comes after one") {
  Scenario scenario = two_ways();
  const auto refused = [&](std::vector<Action> body) {
    scenario.script.segments = script({std::move(body)});
    return refusal(scenario, 2);
  };
  CHECK(refused({forward, backward, on({0, 1}, step), on({0, 1}, capture)}).empty());
  CHECK(refused({on({0}, forward), backward}) ==
        "serial model: iteration 0: a reduction of \"way.a.weight\" to which only some ranks give a gradient is not "
        "modelled");
  CHECK(refused({forward, on({1}, backward)}).find("a reduction of") != std::string::npos);
  CHECK(refused({forward, on({1}, set(ActionKind::set_requires_gradient_sync, "", false)), backward})
            .find("a reduction of") != std::string::npos);
  CHECK(refused({forward, backward, on({1}, step)}) ==
        "serial model: iteration 0: a step of some ranks only, with a reduced gradient of \"way.a.weight\", is not "
        "modelled");
  CHECK(refused({forward, backward, on({1}, zeros)}).find("a zero_grad of some ranks only") != std::string::npos);
  CHECK(refused({forward, on({1}, capture)}).find("a capture of some ranks only") != std::string::npos);
  CHECK(refused({forward, backward, on({1}, {.kind = ActionKind::clip_grad_norm, .max_norm = 1})})
            .find("a clip_grad_norm of") != std::string::npos);
}
