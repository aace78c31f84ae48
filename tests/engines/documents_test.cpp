// The documents of docs/scenarios that capture values, on the engine that ships with the suite: each play is sound, its
// values are those of the serial model, and they are exact, so that any right engine has them.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/oracles/serial_model.hpp"
#include "harness/base/input_file.hpp"
#include "harness/scenario/exactness.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "tests/engines/serial_comparison.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

constexpr int document_ranks = 2;

Scenario shown(const std::string& name) {
  return parse_scenario(base::read_input(std::filesystem::path(SHARDPROOF_SCENARIOS) / (name + ".json")));
}

std::vector<bool> gradients_after(const Scenario& scenario, std::size_t capture) {
  const std::vector<Run> runs = testing::played(scenario, document_ranks);
  std::vector<bool> defined;
  for (const CapturedParameter& parameter : runs.front().captures().at(capture).parameters)
    defined.push_back(parameter.gradient.defined());
  return defined;
}

std::vector<double> shard_after(const Scenario& scenario, std::size_t capture, std::size_t parameter) {
  return testing::played(scenario, document_ranks)
      .front()
      .captures()
      .at(capture)
      .parameters.at(parameter)
      .shard.to_doubles();
}

}  // namespace

TEST_CASE("the documents of script elements capture what any arithmetic comes to") {
  for (const char* name :
       {"paths_and_order", "zeroed_gradients", "several_forwards", "momentum", "live_reduce_inputs", "micro_batches"}) {
    CAPTURE(name);
    const Scenario scenario = shown(name);
    const std::vector<Run> runs = testing::played(scenario, document_ranks);
    for (const Run& run : runs) {
      REQUIRE(run.races().empty());
      REQUIRE(run.left_alive() == 0);
      REQUIRE(run.captures().size() > 1);
    }
    const std::vector<bool> exact = exact_captures(scenario, document_ranks);
    CHECK(std::ranges::all_of(exact, std::identity()));
    testing::check_exact(scenario, runs, oracles::Arithmetic::f32);
    testing::check_exact(scenario, runs, oracles::Arithmetic::f64);
  }
}

TEST_CASE("what waits for a reduction is dropped where gradients become zero") {
  Scenario scenario = shown("zeroed_gradients");
  const auto sync = [](bool value) { return Action{.kind = ActionKind::set_requires_gradient_sync, .value = value}; };
  const Action zeros{.kind = ActionKind::zero_grad, .to_zero = true},
      other{.kind = ActionKind::forward, .paths = {{"way", "b"}}};
  scenario.script.segments = {{.body = {sync(false),
                                        {ActionKind::forward},
                                        {ActionKind::backward},
                                        other,
                                        {ActionKind::backward},
                                        zeros,
                                        {ActionKind::capture},
                                        sync(true),
                                        other,
                                        {ActionKind::backward},
                                        {ActionKind::capture}}}};
  for (const bool is_mixed : {false, true}) {
    CAPTURE(is_mixed);
    if (is_mixed) scenario.plan.mixed_precision = {.param = DType::bf16, .reduce = DType::f32};
    testing::check_exact(scenario, testing::played(scenario, document_ranks), oracles::Arithmetic::f32);
  }
}

TEST_CASE("each of these documents shows its element") {
  const Scenario zeroed = shown("zeroed_gradients");
  CHECK(gradients_after(zeroed, 1) == std::vector{true, true, false, false});
  CHECK(gradients_after(zeroed, 2) == std::vector{true, true, true, true});
  CHECK(gradients_after(zeroed, 4) == std::vector(4, false));

  const Scenario momentum = shown("momentum");
  CHECK(shard_after(momentum, 1, 0) == shard_after(momentum, 2, 0));  // no gradient, no step
  Scenario without = momentum;
  without.plan.optimizer.momentum = 0;
  CHECK(shard_after(without, 0, 0) == shard_after(momentum, 0, 0));
  CHECK(shard_after(without, 1, 0) != shard_after(momentum, 1, 0));

  Scenario paths = shown("paths_and_order");
  const std::vector<Run> runs = testing::played(paths, document_ranks);
  CHECK(runs[0].captures()[1].loss != runs[1].captures()[1].loss);
  for (Action& action : paths.script.segments[1].body) action.paths.clear();
  CHECK(testing::played(paths, document_ranks)[0].captures()[1].loss != runs[0].captures()[1].loss);
}
