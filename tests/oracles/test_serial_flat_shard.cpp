// The serial model on plans for flat parameters, by hand: how gradients wait, who gets one, and how they are divided
// and added.
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "fixtures/oracles/rounding.hpp"
#include "fixtures/oracles/serial_plan.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/foreign_section.hpp"
#include "tests/oracles/scenarios.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using namespace shardproof::scenario;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

Scenario flat(std::vector<Module> children, std::vector<std::string> wrap) {
  Scenario scenario;
  scenario.model.root.children = std::move(children);
  flat_shard_plan(scenario.plan).wrap = std::move(wrap);
  scenario.script.input = {1, 1};
  scenario.script.segments = script({{forward, backward, capture}});
  return scenario;
}

// One weight, whose gradient is the input: given[iteration][rank].
Scenario flat_with_gradients(const std::vector<std::vector<double>>& given) {
  Scenario scenario = flat({linear("l", 1, 1, false)}, {""});
  for (const std::vector<double>& of_ranks : given) {
    auto& by_rank = scenario.script.given.emplace_back();
    for (const double value : of_ranks) by_rank.push_back({value});
  }
  return scenario;
}

double flat_gradient(const Scenario& scenario, int world) {
  return train_serially(scenario, world, Arithmetic::f64).back().gradients.at(0).values.at(0);
}

double f16(double value) { return rounded_to(DType::f16, value); }

Action sync_all(bool on) { return set(ActionKind::set_requires_gradient_sync, "", on); }

}  // namespace

TEST_CASE("flat gradients are divided before the sums and after them, in the dtype of the reduction") {
  Scenario scenario = flat_with_gradients({{1, 2.0 / 3, 5}});
  CHECK(flat_gradient(scenario, 3) == ((1 / 2.0 + 2.0 / 3 / 2) + 5 / 2.0) / 1.5);
  scenario.plan.mixed_precision.reduce = DType::f16;
  CHECK(flat_gradient(scenario, 3) == f16(f16(f16(0.5 + f16(f16(2.0 / 3) / 2)) + 2.5) / 1.5));
  CHECK(flat_gradient(flat_with_gradients({{1, 1, 1, 1, 1, 1, 7}}), 7) == (6 / 2.0 + 7 / 2.0) / 3.5);
}

TEST_CASE("flat gradients are reduced in the dtype of parameters unless the plan says otherwise") {
  Scenario scenario = flat_with_gradients({{256, 1, 1, -256}});
  CHECK(flat_gradient(scenario, 4) == 0.5);
  scenario.plan.mixed_precision.param = DType::bf16;
  CHECK(flat_gradient(scenario, 4) == 0);
  scenario.plan.mixed_precision.reduce = DType::f32;
  CHECK(flat_gradient(scenario, 4) == 0.5);
}

TEST_CASE("flat gradients on a mesh are added within shard groups first") {
  Scenario scenario = flat_with_gradients({{256, 1, 1, -256}});
  scenario.plan.mixed_precision.reduce = DType::bf16;
  CHECK(flat_gradient(scenario, 4) == 0);
  flat_shard_plan(scenario.plan).strategy = ShardStrategy::hybrid;
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  CHECK(flat_gradient(scenario, 4) == (128 + -127.5) / 2);
}

TEST_CASE("a hook adds flat gradients, and divides the sum once") {
  const auto hooked = [](HookKind kind, std::string module = "", bool refused = false) {
    Scenario scenario = flat_with_gradients({{1, 2.0 / 3, 5}});
    const Action registration{
        .kind = ActionKind::register_hook, .module = std::move(module), .hook = Hook{.kind = kind, .refused = refused}};
    scenario.script.segments.front().body.insert(scenario.script.segments.front().body.begin(), registration);
    return scenario;
  };
  const double sum = 1 + 2.0 / 3 + 5, usual = flat_gradient(flat_with_gradients({{1, 2.0 / 3, 5}}), 3);
  CHECK(flat_gradient(hooked(HookKind::plain), 3) == sum / 3);
  CHECK(flat_gradient(hooked(HookKind::doubled), 3) == sum / 3 * 2);
  CHECK(flat_gradient(hooked(HookKind::sum), 3) == sum);
  CHECK(flat_gradient(hooked(HookKind::sum, "", true), 3) == usual);
  CHECK(flat_gradient(hooked(HookKind::sum, "l"), 3) == usual);  // no unit is there
  CHECK(flat_gradient(hooked(HookKind::fp16_compress), 3) == f16(f16(f16(0.5 + f16(f16(2.0 / 3) / 2)) + 2.5) / 1.5));
  Scenario low = hooked(HookKind::bf16_compress);
  low.plan.mixed_precision.reduce = DType::f16;
  const auto bf16 = [](double value) { return rounded_to(DType::bf16, value); };
  CHECK(flat_gradient(low, 3) == bf16(bf16(bf16(0.5 + bf16(bf16(2.0 / 3) / 2)) + 2.5) / 1.5));
  low = hooked(HookKind::plain);
  low.plan.mixed_precision.reduce = DType::f16;
  CHECK(flat_gradient(low, 3) == f16(f16(f16(1 + f16(2.0 / 3)) + 5) / 3));
}

TEST_CASE("a hook that fails, that is no hook, or that is called at another point, is not modelled") {
  for (const Hook& hook :
       {Hook{.kind = HookKind::not_callable}, Hook{.fails_on = {0}}, Hook{.point = HookPoint::after_reduction}}) {
    Scenario scenario = flat_with_gradients({{1, 2}});
    scenario.script.segments.front().body.insert(scenario.script.segments.front().body.begin(),
                                                 {.kind = ActionKind::register_hook, .hook = hook});
    CHECK_THROWS_MATCHES(flat_gradient(scenario, 2), std::invalid_argument,
                         MessageMatches(ContainsSubstring("hook at the point")));
  }
}

TEST_CASE("flat gradients wait in the dtype of parameters") {
  Scenario scenario = flat_with_gradients({{256}, {1}, {-256}});
  scenario.script.segments = script({{sync_all(false), forward, backward},
                                     {forward, backward, capture},
                                     {sync_all(true), forward, backward, capture}});
  CHECK(flat_gradient(scenario, 1) == 1);
  CHECK_FALSE(train_serially(scenario, 1, Arithmetic::f64).front().gradients[0].defined());
  scenario.plan.mixed_precision = {.param = DType::bf16, .reduce = DType::f32};
  CHECK(flat_gradient(scenario, 1) == 0);
}

TEST_CASE("a unit that takes part in a backward has gradients of all that it trains") {
  Module left = frozen(linear("frozen", 1, 1, false));
  Scenario scenario =
      flat({container(ModuleKind::choice, "way", {linear("left", 1, 1, false), linear("right", 1, 1, false)}), left,
            container(ModuleKind::discard, "aside", {linear("x", 1, 1, false)})},
           {"way", "aside.x", ""});
  flat_shard_plan(scenario.plan).use_orig_params = true;
  const SerialIteration trained = train_serially(scenario, 2, Arithmetic::f64).at(0);
  REQUIRE(trained.gradients.size() == 4);
  CHECK(trained.gradients[0].values != std::vector<double>{0});
  CHECK(trained.gradients[1].values == std::vector<double>{0});
  CHECK_FALSE(trained.gradients[2].defined());  // frozen
  CHECK_FALSE(trained.gradients[3].defined());  // its unit took no part
}

TEST_CASE("gradients that wait in a unit keep waiting when a backward does not reach the unit") {
  Scenario scenario =
      flat({container(ModuleKind::choice, "way", {linear("left", 1, 1, false), linear("right", 1, 1, false)})},
           {"way.left", "way.right"});
  const Action right{.kind = ActionKind::forward, .paths = {{"way", "right"}}};
  scenario.script.given = {{{1}, {1}}};
  scenario.script.segments = script(
      {{sync_all(false), forward, backward, sync_all(true), right, backward, capture, forward, backward, capture}});
  const std::vector<SerialIteration> trained = train_serially(scenario, 2, Arithmetic::f64);
  CHECK_FALSE(trained[0].gradients[0].defined());
  CHECK(trained[0].gradients[1].values == std::vector<double>{1});
  CHECK(trained[1].gradients[0].values == std::vector<double>{2});
}

TEST_CASE("a plan for a kind of engine without a model is refused by the kind's name") {
  Plan plan;
  plan.engine = ChosenEngine(std::make_unique<ForeignSection>("toy"));
  CHECK_THROWS_MATCHES(serial_plan(plan, 2), std::invalid_argument, MessageMatches(ContainsSubstring("\"toy\"")));
}
