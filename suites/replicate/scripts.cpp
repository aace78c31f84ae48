// Scripts and models off the usual path, eagerly and compiled.
#include <shardproof.hpp>

#include <string>
#include <utility>

#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/replicate/plans.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

namespace {

// Each iteration has one backward that syncs, and it is the last one.
std::vector<Action> script_of(const std::string& what) {
  std::vector<Action> body = gradients_only();
  const Action failing{.kind = ActionKind::forward, .fails_in = "fc3"}, evaluation{ActionKind::evaluate};
  if (what == "two_forwards") body.insert(body.begin(), {ActionKind::forward});
  if (what == "failed_forward") body = {failing, body[0], body[1], body[2], failing, {ActionKind::zero_grad}};
  if (what == "evaluations") body = {evaluation, body[0], evaluation, body[1], evaluation, body[2], body[3]};
  // Sync is on in these calls alone, before the first backward and after it.
  if (what == "failed_forward_syncs" || what == "evaluation_syncs") {
    const Action only = what == "evaluation_syncs" ? evaluation : failing;
    body = {only,
            sync(false),
            {ActionKind::forward},
            {ActionKind::backward},
            {ActionKind::capture},
            sync(true),
            body[0],
            body[1],
            body[2],
            body[3]};
  }
  if (what == "other_call_unsynced")
    body = {body[0], sync(false), evaluation, failing, evaluation, body[1], sync(true), body[2], body[3]};
  return body;
}

Scenario off_path(const std::string& what) {
  Scenario scenario = four_layers(4);
  std::vector<Module>& layers = scenario.model.root.children;
  if (what == "shared_parameters") {
    layers[2].tied_to = "fc1";
    layers.push_back({.name = "again", .kind = ModuleKind::use, .target = "fc2"});
  }
  if (what == "frozen") layers[0].frozen = layers[2].frozen = true;
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = 12;
  plan.bucket_bytes = 80;
  scenario.script.segments.front().body = script_of(what);
  return with_last_step(std::move(scenario));
}

}  // namespace

RANKED_TEST_CASE("replicate/scripts", clauses("REP-1", "REP-2", "REP-4", "REP-6", "REP-15"), ranks(1, 2, 3, 4),
                 each("step", "eager", "compiled"),
                 each("what", "frozen", "shared_parameters", "two_forwards", "evaluations", "evaluation_syncs",
                      "failed_forward", "failed_forward_syncs", "other_call_unsynced"),
                 needs(Feature::timeline), needs_if("step", "compiled", ReplicateFeature::compiled_step),
                 needs_if("what", "frozen", Feature::module_groups),
                 needs_if("what", "shared_parameters", Feature::shared_parameters, Feature::module_groups),
                 needs_if("what", "evaluation_syncs", Feature::gradient_accumulation),
                 needs_if("what", "failed_forward", Feature::failed_forward),
                 needs_if("what", "failed_forward_syncs", Feature::failed_forward, Feature::gradient_accumulation),
                 needs_if("what", "other_call_unsynced", Feature::failed_forward, Feature::gradient_accumulation)) {
  Scenario scenario = off_path(rank.param("what"));
  const bool compiles = rank.param("step") == "compiled";
  if (compiles) replicate_plan(scenario.plan).compile.emplace();
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_reduced_once(rank, run);
  if (rank.param("what").ends_with("_syncs")) {
    const auto judged = rank.under("REP-6");
    const std::vector<Iteration> all = run.iterations();
    for (std::size_t i = 0; i + 1 < all.size(); ++i) CHECK(calls_in_backward(all[i], 1).empty());
  }
  if (compiles) check_ran_as_planned(rank, run);
  check_sound(rank, run);
  check_freed_memory(rank, run);
}

// Memory comes with materialize, values with initialize, in any order of modules.
RANKED_TEST_CASE("replicate/meta_initialisation", clauses("REP-1", "REP-14"), ranks(1, 2, 4),
                 each("step", "eager", "compiled"), needs(Feature::timeline, Feature::meta_initialisation),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  Scenario scenario = exact_net(true, training());
  scenario.plan.initialisation = Initialisation::meta;
  if (rank.param("step") == "compiled") replicate_plan(scenario.plan).compile.emplace();
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {.body = {{.kind = ActionKind::materialize, .module = "1"},
                                            {.kind = ActionKind::materialize, .module = "0"},
                                            {.kind = ActionKind::initialize, .module = "1"},
                                            {.kind = ActionKind::initialize, .module = "0"}}});
  const Run run = play_accepted(rank, scenario);
  const auto judged = rank.under("REP-14");
  CHECK(trace::at(run.trace(), MemoryClass::parameter, mark(0, ActionKind::materialize)).bytes == 0);
  CHECK(trace::at(run.trace(), MemoryClass::parameter, mark(0, ActionKind::materialize, true)).bytes == 4 * (18 + 3));
  CHECK(run.peak(MemoryClass::parameter).bytes == 4 * trainable_elements(scenario.model));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_sound(rank, run);
}

// While work runs, memory that it does not declare holds other values: so a work that reads or writes more than it says
// computes wrongly.
RANKED_TEST_CASE("replicate/declared_memory", clauses("REP-4"), ranks(1, 2, 3),
                 each("plan", "copies", "views", "unused_parameters", "concat", "coalesce"),
                 each("hook", "none", "bf16_compress"),
                 needs(Feature::timeline, Feature::hidden_memory, Feature::gradient_accumulation),
                 needs_if("plan", "views", ReplicateFeature::gradient_views),
                 needs_if("plan", "unused_parameters", ReplicateFeature::unused_parameters, Feature::module_groups),
                 needs_if("plan", "concat", ReplicateFeature::compiled_step),
                 needs_if("plan", "coalesce", ReplicateFeature::compiled_step),
                 needs_if("hook", "bf16_compress", ReplicateFeature::compressing_hooks)) {
  Scenario scenario = off_path("evaluation_syncs");
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  const std::string& what = rank.param("plan");
  if (what == "views") plan.gradients = BucketGradients::views;
  if (what == "concat") plan.compile.emplace();
  if (what == "coalesce") plan.compile = {.fusion = BucketFusion::coalesce};
  if (what == "unused_parameters") {
    plan.unused_parameters = true;
    const Module layer{.name = "unused", .kind = ModuleKind::linear, .in_features = 4, .out_features = 4};
    scenario.model.root.children.push_back(
        {.name = "way", .kind = ModuleKind::choice, .children = {{.name = "none", .kind = ModuleKind::relu}, layer}});
  }
  if (rank.param("hook") != "none")
    scenario.script.segments.insert(
        scenario.script.segments.begin(),
        {.body = {{.kind = ActionKind::register_hook, .hook = Hook{.kind = HookKind::bf16_compress}}}});
  const Run usual = play_accepted(rank, scenario);
  scenario.device.hide_undeclared_memory = true;
  const Run hidden = play_accepted(rank, scenario);
  check_equal(rank, hidden, usual);
  check_no_race(rank, hidden);
}

}  // namespace shardproof::replicate
