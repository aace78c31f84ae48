// Parameters that a backward does not reach.
#include <shardproof.hpp>

#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <optional>
#include <string>

#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

namespace {

// After the layer `in`, one of three layers runs.
Scenario three_ways(std::vector<Action> body) {
  Scenario scenario = four_layers(4);
  Module layer{.name = "in", .kind = ModuleKind::linear, .in_features = 4, .out_features = 4};
  Module way{.name = "way", .kind = ModuleKind::choice};
  for (const char* const name : {"x", "y", "z"}) {
    Module child = layer;
    child.name = name;
    way.children.push_back(child);
  }
  scenario.model.root.children = {layer, way};
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.unused_parameters = true;
  plan.first_bucket_bytes = plan.bucket_bytes = 96;
  scenario.script.segments.front().body = std::move(body);
  return scenario;
}

Action forward_by(const std::string& way, std::vector<int> ranks = {}) {
  return {.kind = ActionKind::forward, .paths = {{"way", way}}, .ranks = std::move(ranks)};
}

std::vector<int> all_but_first(int world) {
  std::vector<int> ranks;
  for (int each = 1; each < world; ++each) ranks.push_back(each);
  return ranks;
}

}  // namespace

// Rank 0 runs `x`, the other ranks run `y`, no rank runs `z`. Gradients of the first round stay for the second one,
// which runs `z`.
RANKED_TEST_CASE("replicate/unused_parameters", clauses("REP-1", "REP-2", "REP-3", "REP-4", "REP-7"), ranks(1, 2, 3, 4),
                 each("gradients", "copies", "views"),
                 needs(Feature::timeline, Feature::module_groups, ReplicateFeature::unused_parameters),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  const bool alone = rank.world().size() == 1;
  std::vector<Action> body{forward_by("x", {0}),   {ActionKind::backward}, {ActionKind::capture},  forward_by("z"),
                           {ActionKind::backward}, {ActionKind::capture},  {ActionKind::zero_grad}};
  if (!alone) body.insert(body.begin() + 1, forward_by("y", all_but_first(rank.world().size())));
  Scenario scenario = three_ways(std::move(body));
  if (rank.param("gradients") == "views") replicate_plan(scenario.plan).gradients = BucketGradients::views;
  const Run run = play_accepted(rank, with_last_step(scenario));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_sound(rank, run);
  check_memory_classes(rank, run);
  if (alone) {
    const auto judged = rank.under("REP-2");
    CHECK(run.count(CollectiveKind::all_reduce) == 0);
  }
  const auto judged = rank.under("REP-7");
  // A parameter that no rank has used has no gradient.
  const std::vector<CapturedParameter>& first = run.captures().front().parameters;
  for (const CapturedParameter& parameter : first) {
    CAPTURE(parameter.name);
    const bool is_unused = parameter.name.starts_with("way.z") || (alone && parameter.name.starts_with("way.y"));
    CHECK(parameter.gradient.defined() == !is_unused);
  }
}

// First the backward of some ranks reaches no parameter, then the backward of all ranks.
RANKED_TEST_CASE("replicate/no_parameter_reached", clauses("REP-1", "REP-7"), ranks(1, 2, 3),
                 needs(Feature::module_groups, ReplicateFeature::unused_parameters)) {
  const bool alone = rank.world().size() == 1;
  std::vector<Action> body{forward_by("x", {0}),   {ActionKind::backward}, {ActionKind::capture},  forward_by("none"),
                           {ActionKind::backward}, {ActionKind::capture},  {ActionKind::zero_grad}};
  if (!alone) body.insert(body.begin() + 1, forward_by("none", all_but_first(rank.world().size())));
  Scenario scenario = three_ways(std::move(body));
  std::vector<Module>& modules = scenario.model.root.children;
  modules.erase(modules.begin());
  modules.front().children.push_back({.name = "none", .kind = ModuleKind::relu});
  const Run run = play_accepted(rank, with_last_step(scenario));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  for (const Capture& capture : run.captures()) {
    for (const CapturedParameter& parameter : capture.parameters) {
      CAPTURE(capture.iteration, parameter.name);
      const auto judged = rank.under("REP-7");
      CHECK(parameter.gradient.defined() == parameter.name.starts_with("way.x"));
    }
  }
}

// A use in a backward without sync counts for the next reduction.
RANKED_TEST_CASE("replicate/unused_after_no_sync", clauses("REP-7"), ranks(2, 3),
                 needs(Feature::module_groups, Feature::gradient_accumulation, ReplicateFeature::unused_parameters)) {
  Scenario scenario = three_ways({sync(false),
                                  forward_by("x"),
                                  {ActionKind::backward},
                                  sync(true),
                                  forward_by("y"),
                                  {ActionKind::backward},
                                  {ActionKind::capture},
                                  {ActionKind::zero_grad}});
  std::ranges::reverse(scenario.model.root.children);  // so the first parameter is one that the backward does not reach
  const Run run = play_accepted(rank, with_last_step(scenario));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
}

// Every rank leaves the same parameters out, from the beginning or later. Then the error comes in that backward or in
// the next forward.
RANKED_TEST_CASE("replicate/unused_refused", clauses("REP-8"), ranks(1, 2, 3), each("step", "eager", "compiled"),
                 each("backward", "first", "second"), needs(Feature::module_groups),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  Scenario scenario = three_ways({forward_by("y"), {ActionKind::backward}, {ActionKind::zero_grad}});
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.unused_parameters = false;
  if (rank.param("step") == "compiled") plan.compile.emplace();
  std::ranges::reverse(scenario.model.root.children);
  if (rank.param("backward") == "second")
    scenario.script.segments.insert(
        scenario.script.segments.begin(),
        {.body = {forward_by("x"), forward_by("y"), forward_by("z"), {ActionKind::backward}, {ActionKind::zero_grad}}});
  const std::optional<player::SubjectError> refused = refusal(rank, scenario);
  REQUIRE(refused);
  CHECK((refused->call() == "backward" || refused->call() == "forward"));
  check_refused(rank, scenario, refused->call(), {"way.x.weight", "way.z.bias"});
  CHECK_THAT(refused->reason(), !Catch::Matchers::ContainsSubstring("way.y"));
}

// By limits over the order of registration, the last bucket first.
RANKED_TEST_CASE("replicate/buckets_of_construction", clauses("REP-22"), ranks(2, 3),
                 needs(Feature::timeline, Feature::module_groups, ReplicateFeature::unused_parameters),
                 tags("reference")) {
  Scenario scenario = three_ways({forward_by("x"), {ActionKind::backward}, {ActionKind::zero_grad}});
  replicate_plan(scenario.plan).first_bucket_bytes = 64;
  const Run run = play_accepted(rank, scenario);
  // Weights of 64 bytes and biases of 16: limits of 64 and 96 close buckets after [in.weight], [in.bias, x.weight,
  // x.bias], and so on.
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    std::vector<std::uint64_t> elements;
    for (const fact::Collective& call : bucket_calls(iteration)) elements.push_back(call.in_count);
    CHECK(elements == std::vector<std::uint64_t>{4, 36, 24, 16});
  }
}

}  // namespace shardproof::replicate
