// Ranks whose backwards run in different orders start the same buckets all the same.
#include <shardproof.hpp>

#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

namespace {

Module use(std::string name, std::string target) {
  return {.name = std::move(name), .kind = ModuleKind::use, .target = std::move(target)};
}

// Layers `a` and `b` of different sizes. Rank 0 runs `a` and then `b`, the other ranks run `b` first. After three
// iterations they change roles.
Scenario two_orders(int world) {
  Scenario scenario = four_layers(4);
  Module a{.name = "a", .kind = ModuleKind::linear, .in_features = 4, .out_features = 4}, b = a;
  b.name = "b";
  b.bias = false;
  scenario.model.root.children = {
      {.name = "layers", .kind = ModuleKind::list, .children = {a, b}},
      {.name = "way",
       .kind = ModuleKind::choice,
       .children = {{.name = "ab", .children = {use("0", "layers.a"), use("1", "layers.b")}},
                    {.name = "ba", .children = {use("0", "layers.b"), use("1", "layers.a")}}}}};
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = plan.bucket_bytes = 64;  // of a weight
  std::vector<int> others;
  for (int each = 1; each < world; ++each) others.push_back(each);
  const auto forward = [](std::string way, std::vector<int> ranks) {
    return Action{.kind = ActionKind::forward, .paths = {{"way", std::move(way)}}, .ranks = std::move(ranks)};
  };
  Script::Segment& first = scenario.script.segments.front();
  Script::Segment later = first;
  first.body.erase(first.body.begin());
  first.body.insert(first.body.begin(), {forward("ab", {0}), forward("ba", others)});
  later.body.erase(later.body.begin());
  later.body.insert(later.body.begin(), {forward("ba", {0}), forward("ab", others)});
  scenario.script.segments.push_back(std::move(later));
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("replicate/order_differs", clauses("REP-1", "REP-3", "REP-4"), ranks(2, 3, 4),
                 each("step", "eager", "compiled"), needs(Feature::timeline, Feature::module_groups),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  Scenario scenario = with_last_step(two_orders(rank.world().size()));
  if (rank.param("step") == "compiled") replicate_plan(scenario.plan).compile.emplace();
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
}

// The first backward that syncs is not the first one.
RANKED_TEST_CASE("replicate/order_differs_after_no_sync", clauses("REP-1", "REP-3", "REP-4"), ranks(2, 3),
                 each("step", "eager", "compiled"),
                 needs(Feature::timeline, Feature::module_groups, Feature::gradient_accumulation),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  Scenario scenario = with_last_step(two_orders(rank.world().size()));
  scenario.script.segments.insert(scenario.script.segments.begin(), without_sync(scenario.script.segments.front()));
  if (rank.param("step") == "compiled") replicate_plan(scenario.plan).compile.emplace();
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_sound(rank, run);
}

// Rank 0's order: `b` has the last backward of its forward, so it is ready first.
RANKED_TEST_CASE("replicate/order_of_rank_0", clauses("REP-20"), ranks(2, 3, 4),
                 needs(Feature::timeline, Feature::module_groups), tags("reference")) {
  const Run run = play_accepted(rank, two_orders(rank.world().size()));
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    std::vector<std::uint64_t> elements;
    for (const fact::Collective& call : bucket_calls(iteration)) elements.push_back(call.in_count);
    CHECK(elements == (iteration.index() == 0 ? std::vector<std::uint64_t>{36} : std::vector<std::uint64_t>{16, 20}));
  }
}

}  // namespace shardproof::replicate
