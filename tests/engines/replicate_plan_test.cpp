// Plans of the engine that replicates parameters. No case of a suite has them, so other engines may refuse them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/scenario/plan/replicate.hpp"
#include "tests/engines/flat_scenarios.hpp"

namespace shardproof::testing {

namespace {

Scenario replicated_modules(std::vector<Module> children) {
  Scenario scenario = flat_scenario(std::move(children), {});
  scenario.plan.engine = {};
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = 16;
  plan.bucket_bytes = 64;
  scenario.script.input = {1, 4};
  return scenario;
}

}  // namespace

TEST_CASE("a backward that reaches no parameter reduces zeros, and leaves all gradients as they are") {
  using enum ActionKind;
  Scenario scenario =
      replicated_modules({holder(ModuleKind::choice, "way", {activation("none"), layer("some", 4, 4)})});
  replicate_plan(scenario.plan).unused_parameters = true;
  scenario.script.segments = {{2, {{forward}, {backward}, {capture}}}};
  for (const Run& run : played(scenario, 2)) {
    for (const CapturedParameter& parameter : run.captures().back().parameters) CHECK(!parameter.gradient.defined());
    CHECK(run.count(CollectiveKind::all_reduce) == 6);  // twice: two buckets, and the parameters that ranks used
  }
}

TEST_CASE("a pair of tensors is refused: buckets hold plain ones") {
  Scenario scenario = replicated_modules({layer("pair", 4, 4)});
  scenario.model.root.children[0].tensor = TensorKind::two_tensor;
  CHECK_THROWS_MATCHES(
      played(scenario, 2), std::exception,
      Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("parameter \"pair.weight\" is a pair")));
}

}  // namespace shardproof::testing
