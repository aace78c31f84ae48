// Plans for an engine with flat parameters that its construction refuses, plans next to them that it takes, and what it
// warns of.
#include <algorithm>
#include <cctype>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/scenario/plan/flat_shard.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/flat_ways.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

// Three layers of one shape. The first two are in `block`.
Scenario block_and_layer() {
  Scenario scenario = flat_ways(ShardStrategy::full_shard);
  scenario.model.root.children = {{.name = "block", .children = {linear("l0", 4, 4), linear("l1", 4, 4)}},
                                  linear("l2", 4, 4)};
  flat_shard_plan(scenario.plan).wrap = {"block", ""};
  scenario.script.segments = {{.iterations = 3, .body = trained_by({{ActionKind::forward}, {ActionKind::backward}})}};
  return scenario;
}

Module& l0(Scenario& scenario) { return scenario.model.root.children[0].children[0]; }
Module& l2(Scenario& scenario) { return scenario.model.root.children[1]; }
void wrap(Scenario& scenario, std::vector<std::string> units) {
  flat_shard_plan(scenario.plan).wrap = std::move(units);
}
void use_again(Scenario& scenario, const char* target) {
  scenario.model.root.children.push_back({.name = "again", .kind = ModuleKind::use, .target = target});
}

struct FlatPlanChange {
  std::string_view name;
  std::string_view culprit;  ///< what a refusal must name; empty: the plan is taken
  std::function<void(Scenario&, int world)> make;
};

const std::vector<FlatPlanChange>& flat_plan_changes() {
  static const std::vector<FlatPlanChange> all{
      {"mesh_of_other_size", "world",
       [](Scenario& s, int world) {
         s.plan.mesh = {.shape = {world + 1, 2}, .names = {"copies", "parts"}};
         flat_shard_plan(s.plan).strategy = ShardStrategy::hybrid;
       }},
      {"mesh_of_world", "", [](Scenario& s, int world) { s.plan.mesh = {.shape = {world}, .names = {}}; }},
      {"tied_units", "block.l0.weight", [](Scenario& s, int) { l2(s).tied_to = "block.l0"; }},
      {"tied_to_a_unit", "block.l0.weight",
       [](Scenario& s, int) {
         l2(s).tied_to = "block.l0";
         wrap(s, {"block"});
       }},
      {"unit_tied_to_none", "block.l0.weight",
       [](Scenario& s, int) {
         l2(s).tied_to = "block.l0";
         wrap(s, {"l2"});
       }},
      {"tied_in_one_unit", "",
       [](Scenario& s, int) {
         l2(s).tied_to = "block.l0";
         wrap(s, {""});
       }},
      {"pair", "block.l0.weight", [](Scenario& s, int) { l0(s).tensor = TensorKind::two_tensor; }},
      {"scalar", "scale.factor",
       [](Scenario& s, int) {
         s.model.root.children.push_back({.name = "scale", .kind = ModuleKind::scale, .scalar = true});
       }},
      {"one_element", "",
       [](Scenario& s, int) { s.model.root.children.push_back({.name = "scale", .kind = ModuleKind::scale}); }},
      {"partly_frozen", "block.l1.weight",
       [](Scenario& s, int) { s.model.root.children[0].children[1].frozen = true; }},
      {"frozen_apart", "", [](Scenario& s, int) { l2(s).frozen = true; }},
      {"use_outside", "again", [](Scenario& s, int) { use_again(s, "block.l0"); }},
      {"use_of_a_unit", "", [](Scenario& s, int) { use_again(s, "block"); }},
      {"use_inside", "",
       [](Scenario& s, int) {
         s.model.root.children[0].children.push_back({.name = "again", .kind = ModuleKind::use, .target = "block.l0"});
       }},
      {"use_of_none", "",
       [](Scenario& s, int) {
         use_again(s, "l2");
         wrap(s, {"block"});
       }},
      {"part_of_no_unit", "", [](Scenario& s, int) { wrap(s, {"block"}); }}};
  return all;
}

const FlatPlanChange& flat_plan_change(const std::string& name) {
  const auto found = std::ranges::find(flat_plan_changes(), name, &FlatPlanChange::name);
  REQUIRE(found != flat_plan_changes().end());
  return *found;
}

void check_refused_flat_plan(Rank& rank) {
  const FlatPlanChange& mistake = flat_plan_change(rank.param("mistake"));
  Scenario wrong = block_and_layer();
  mistake.make(wrong, rank.world().size());
  check_refused(rank, wrong, "create", {std::string(mistake.culprit)});
  CHECK_FALSE(refusal(rank, block_and_layer()));
}

void check_taken_flat_plan(Rank& rank) {
  Scenario scenario = block_and_layer();
  flat_plan_change(rank.param("plan")).make(scenario, rank.world().size());
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, ways_tolerance, Moves::some_parameter);
  check_sound(rank, run);
}

// Whether the construction has warned that the plan acts as another strategy.
bool says_no_shard(const Run& run) {
  return std::ranges::any_of(run.warnings(), [](const Warning& warning) {
    std::string text = warning.text;
    std::ranges::transform(text, text.begin(),
                           [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return warning.call == "create" && text.find(to_string(ShardStrategy::no_shard)) != std::string::npos;
  });
}

Mesh copies_of(int parts, int world, bool names) {
  return {.shape = {world / parts, parts},
          .names = names ? std::vector<std::string>{"copies", "parts"} : std::vector<std::string>{}};
}

}  // namespace

RANKED_TEST_CASE("overlap/flat_refused_plan", clauses("OVL-42"), ranks(1, 2, 3), also_with_discarded_module(),
                 on_engines("flat_shard"), each("mistake", "pair", "scalar", "partly_frozen"),
                 needs_if("mistake", "scalar", Feature::module_groups),
                 needs_if("mistake", "partly_frozen", Feature::module_groups)) {
  check_refused_flat_plan(rank);
}

RANKED_TEST_CASE("overlap/flat_refused_plan", clauses("OVL-42"), ranks(1, 2, 3), also_with_discarded_module(),
                 on_engines("flat_shard"), each("mistake", "mesh_of_other_size"), needs(Feature::replicated_mesh)) {
  check_refused_flat_plan(rank);
}

RANKED_TEST_CASE("overlap/flat_refused_plan", clauses("OVL-42"), ranks(1, 2, 3), also_with_discarded_module(),
                 on_engines("flat_shard"), each("mistake", "tied_units", "tied_to_a_unit", "unit_tied_to_none"),
                 needs(Feature::shared_parameters)) {
  check_refused_flat_plan(rank);
}

RANKED_TEST_CASE("overlap/flat_refused_plan", clauses("OVL-42"), ranks(1, 2, 3), also_with_discarded_module(),
                 on_engines("flat_shard"), each("mistake", "use_outside"), needs(Feature::module_groups)) {
  check_refused_flat_plan(rank);
}

RANKED_TEST_CASE("overlap/flat_taken_plan", clauses("OVL-4", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3),
                 on_engines("flat_shard"),
                 each("plan", "mesh_of_world", "one_element", "frozen_apart", "part_of_no_unit"),
                 needs(Feature::timeline), needs_if("plan", "one_element", Feature::module_groups),
                 needs_if("plan", "frozen_apart", Feature::module_groups)) {
  check_taken_flat_plan(rank);
}

RANKED_TEST_CASE("overlap/flat_taken_plan", clauses("OVL-4", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3),
                 on_engines("flat_shard"), each("plan", "tied_in_one_unit"),
                 needs(Feature::timeline, Feature::shared_parameters)) {
  check_taken_flat_plan(rank);
}

RANKED_TEST_CASE("overlap/flat_taken_plan", clauses("OVL-4", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3),
                 on_engines("flat_shard"), each("plan", "use_of_a_unit", "use_inside", "use_of_none"),
                 needs(Feature::timeline, Feature::module_groups)) {
  check_taken_flat_plan(rank);
}

// One rank alone cannot shard. An engine that goes on as with `no_shard` says so.
RANKED_TEST_CASE("overlap/flat_alone", clauses("OVL-42"), ranks(1, 2, 3, 4), also_with_discarded_module(),
                 on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op")) {
  Scenario scenario = block_and_layer();
  flat_shard_plan(scenario.plan).strategy = strategy(rank);
  CHECK(says_no_shard(play_accepted(rank, scenario)) == (rank.world().size() == 1));
}

RANKED_TEST_CASE("overlap/flat_alone", clauses("OVL-42"), ranks(1), also_with_discarded_module(),
                 on_engines("flat_shard"), each("strategy", "no_shard")) {
  Scenario scenario = block_and_layer();
  flat_shard_plan(scenario.plan).strategy = strategy(rank);
  CHECK_FALSE(says_no_shard(play_accepted(rank, scenario)));
}

RANKED_TEST_CASE("overlap/flat_alone", clauses("OVL-42"), ranks(2, 4), also_with_discarded_module(),
                 on_engines("flat_shard"), each("strategy", "hybrid", "hybrid_zero2"), each("parts", 1, 2),
                 needs(Feature::replicated_mesh)) {
  Scenario scenario = block_and_layer();
  flat_shard_plan(scenario.plan).strategy = strategy(rank);
  const int parts = rank.param<int>("parts");
  scenario.plan.mesh = copies_of(parts, rank.world().size(), true);
  CHECK(says_no_shard(play_accepted(rank, scenario)) == (parts == 1));
}

RANKED_TEST_CASE("overlap/flat_mesh", clauses("OVL-10", "OVL-15", "OVL-40"), ranks(2, 4), also_with_discarded_module(),
                 on_engines("flat_shard"), each("strategy", "hybrid", "hybrid_zero2"), each("parts", 1, 2),
                 each("names", false, true), needs(Feature::timeline, Feature::replicated_mesh)) {
  Scenario scenario = block_and_layer();
  flat_shard_plan(scenario.plan).strategy = strategy(rank);
  const int world = rank.world().size(), parts = rank.param<int>("parts");
  scenario.plan.mesh = copies_of(parts, world, rank.param<bool>("names"));
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, ways_tolerance);
  check_sound(rank, run);
  check_nothing_else_is_communicated(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-40");
    for (const fact::Collective& call : iteration.collectives()) {
      CAPTURE(to_string(call.kind));
      CHECK(call.group.size() ==
            static_cast<std::size_t>(call.kind == CollectiveKind::all_reduce ? world / parts : parts));
    }
  }
}

// Module by module within one unit: what gives memory to the second layer keeps the values of the first one.
RANKED_TEST_CASE("overlap/flat_meta", clauses("OVL-10", "OVL-13"), ranks(1, 2, 3, 4), on_engines("flat_shard"),
                 each("strategy", "full_shard", "no_shard"), needs(Feature::timeline, Feature::meta_initialisation)) {
  Scenario scenario = block_and_layer();
  flat_shard_plan(scenario.plan).strategy = strategy(rank);
  scenario.plan.initialisation = Initialisation::meta;
  std::vector<Action> made;
  for (const char* module : {"block.l1", "block.l0", "l2"}) {
    made.push_back({.kind = ActionKind::materialize, .module = module});
    made.push_back({.kind = ActionKind::initialize, .module = module});
  }
  scenario.script.segments.insert(scenario.script.segments.begin(), {.body = std::move(made)});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, ways_tolerance);
  check_sound(rank, run);
  check_freed_memory(rank, run);
}

}  // namespace shardproof::overlap
