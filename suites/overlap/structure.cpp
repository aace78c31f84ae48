// The host must issue the same calls in the same order as PyTorch, and each call must wait for the same earlier calls.
// PyTorch's log has one iteration or a few. Every played iteration is compared with it.
#include <algorithm>
#include <string>
#include <vector>

#include "fixtures/oracles/golden.hpp"
#include "harness/player/play.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/trace/order.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/said.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

using Reshard = ReshardAfterForward::Kind;

// PyTorch's log has linear layers and collectives. In the runs on the virtual clock it has the optimizer's step, too,
// as one entry. The update of the model's last parameter represents that entry.
constexpr std::string_view last_update_of_stack = "2.linear.bias", last_update_of_post_optim = "tiny.linear.bias";

// PyTorch's logs have no ReLU. The residual is of the module that a case may append (last_module.hpp).
bool is_linear(WorkKind kind, std::string_view label) {
  return (kind == WorkKind::forward || kind == WorkKind::backward) && !label.ends_with("relu") &&
         !label.ends_with("residual");
}

bool is_linear_or_last_update(WorkKind kind, std::string_view label) {
  return is_linear(kind, label) ||
         (kind == WorkKind::optimizer && (label == last_update_of_stack || label == last_update_of_post_optim));
}

trace::Structure with_step_named(trace::Structure structure, std::string_view last_update) {
  for (trace::Step& step : structure.steps) {
    if (step.kind == "optimizer") step.label = last_update;
  }
  return structure;
}

// The log of the post-optim runs names the block, and the scenario names the layer in the block.
trace::Structure with_layers_named(trace::Structure structure) {
  for (trace::Step& step : structure.steps) {
    if (step.kind == "forward" || step.kind == "backward") step.label += ".linear";
  }
  return structure;
}

// How a phase of an iteration begins.
std::string beginning(int iteration) { return mark(iteration, ""); }

int iterations_of(const trace::Structure& golden) {
  int iterations = 0;
  const auto belongs = [&iterations](const trace::Step& step) { return step.phase.starts_with(beginning(iterations)); };
  while (std::ranges::any_of(golden.steps, belongs)) ++iterations;
  return iterations;
}

// So many iterations alone, counted from 0.
trace::Structure window(const trace::Structure& whole, int first, int iterations) {
  trace::Structure part;
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < whole.steps.size(); ++i) {
    for (int iteration = 0; iteration < iterations; ++iteration) {
      const std::string phase = beginning(first + iteration);
      if (!whole.steps[i].phase.starts_with(phase)) continue;
      kept.push_back(i);
      trace::Step& step = part.steps.emplace_back(whole.steps[i]);
      step.phase = beginning(iteration) + step.phase.substr(phase.size());
    }
  }
  for (const std::size_t from : kept) {
    for (const std::size_t to : kept) part.before.push_back(whole.before[from * whole.steps.size() + to]);
  }
  return part;
}

using Keep = bool (*)(WorkKind kind, std::string_view label);

// Compares the run with PyTorch's log. If the script repeats every `period` iterations, the log may begin at each of
// these iterations.
void check_same(Rank& rank, const trace::Structure& golden, const Run& run, Keep keep = is_linear, int period = 1) {
  check_no_race(rank, run);
  REQUIRE(golden.steps.size() > 10);
  const trace::Structure actual = trace::structure(run.trace(), keep);
  const int recorded = iterations_of(golden), played = static_cast<int>(steady_iterations(run).size());
  REQUIRE(recorded > 0);
  REQUIRE(recorded <= played);
  for (int first = 0; first + recorded <= played; first += period) {
    INFO("iterations from " << first << " on, and PyTorch's log");
    const std::string difference = trace::difference(golden, window(actual, first, recorded));
    check_said(difference.empty(), difference);
  }
}

// The scenarios of PyTorch's other traces, each like the one of `traced_blocks` but for one thing.

Scenario with_root_parameters(Reshard reshard) {
  Scenario scenario = traced_blocks({reshard}, false);
  scenario.model.root.children.push_back(linear("root", 8, 8));
  return scenario;
}

Scenario with_lists() {
  Scenario scenario = traced_blocks({Reshard::yes}, false);
  fully_shard_plan(scenario.plan).wrap[0].forward_prefetch = {"1", "2"};
  fully_shard_plan(scenario.plan).wrap[2].backward_prefetch = {"1", "0"};
  return scenario;
}

Scenario with_accumulation() {
  Scenario scenario = traced_blocks({Reshard::yes}, false);
  const auto sync = [](bool on) { return Action{.kind = ActionKind::set_requires_gradient_sync, .value = on}; };
  const Script::Segment first{.body = {sync(false), {ActionKind::forward}, {ActionKind::backward}}};
  const Script::Segment second{.body = {sync(true), {ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}}};
  scenario.script.segments = {first, second, first, second, first, second};
  return scenario;
}

Scenario on_mesh() {
  Scenario scenario = traced_blocks({Reshard::yes}, false);
  scenario.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  return scenario;
}

void check_post_optim(Rank& rank, const Run& run, const char* member) {
  check_same(rank,
             with_step_named(with_layers_named(oracles::golden::structure("h_overlap_virtual_clock", member)),
                             last_update_of_post_optim),
             run, is_linear_or_last_update);
}

}  // namespace

RANKED_TEST_CASE("overlap/structure_of_blocks", clauses("OVL-23"), ranks(2), each("reshard", "None", "False", "True"),
                 needs(Feature::timeline), tags("reference")) {
  const std::string& given = rank.param("reshard");
  const Reshard reshard = given == "None" ? Reshard::automatic : given == "True" ? Reshard::yes : Reshard::no;
  const Run run = play(rank, traced_blocks({reshard}, false));
  check_same(rank, oracles::golden::structure("h_fsdp2_reshard_" + given + "_W2"), run);
}

RANKED_TEST_CASE("overlap/structure_with_root_parameters", clauses("OVL-23"), ranks(2), each("reshard", "None", "True"),
                 needs(Feature::timeline), tags("reference")) {
  const std::string& given = rank.param("reshard");
  const Run run = play(rank, with_root_parameters(given == "None" ? Reshard::automatic : Reshard::yes));
  check_same(rank, oracles::golden::structure("h_fsdp2_rootparam_reshard_" + given + "_W2"), run);
}

RANKED_TEST_CASE("overlap/structure_with_lists", clauses("OVL-23"), ranks(2),
                 needs(Feature::timeline, FullyShardFeature::prefetch_lists), tags("reference")) {
  const Run run = play(rank, with_lists());
  check_same(rank, oracles::golden::structure("h_fsdp2_explicit_prefetch_W2"), run);
}

RANKED_TEST_CASE("overlap/structure_with_accumulation", clauses("OVL-23"), ranks(2),
                 needs(Feature::timeline, Feature::gradient_accumulation), tags("reference")) {
  const Run run = play(rank, with_accumulation());
  check_same(rank, oracles::golden::structure("h_fsdp2_accum_W2"), run, is_linear, 2);
}

RANKED_TEST_CASE("overlap/structure_on_mesh", clauses("OVL-23"), ranks(4),
                 needs(Feature::timeline, Feature::replicated_mesh), tags("reference")) {
  const Run run = play(rank, on_mesh());
  check_same(rank, oracles::golden::structure("h_fsdp2_hsdp_2x2", rank.index()), run);
}

RANKED_TEST_CASE("overlap/structure_to_size", clauses("OVL-23"), ranks(4), also_with_discarded_module(),
                 needs(Feature::timeline, FullyShardFeature::reshard_to_size), tags("reference")) {
  const Run run = play_accepted(rank, traced_blocks({.kind = Reshard::size, .size = 2}, false));
  check_same(rank, oracles::golden::structure("h_fsdp2_reshard_int2_W4", rank.index()), run);
}

RANKED_TEST_CASE("overlap/structure_of_one_rank", clauses("OVL-23"), ranks(1), needs(Feature::timeline),
                 tags("reference")) {
  const Run run = play(rank, traced_blocks({Reshard::yes}, false));
  check_same(rank, oracles::golden::structure("h_fsdp2_reshard_True_W1"), run);
}

RANKED_TEST_CASE("overlap/structure_with_event", clauses("OVL-23"), ranks(2),
                 needs(Feature::timeline, FullyShardFeature::post_optim_event), tags("reference")) {
  const Run run = play(rank, traced_blocks({Reshard::yes}, true));
  check_same(rank, oracles::golden::structure("h_fsdp2_post_optim_W2"), run);
}

RANKED_TEST_CASE("overlap/structure_of_stack", clauses("OVL-23"), ranks(2), needs(Feature::timeline),
                 tags("reference")) {
  Scenario scenario = seed_stack();
  for (Module& block : scenario.model.root.children)
    block.children.front().bias = true;  // the recorded layers have one
  scenario.script.segments.front().body.push_back({ActionKind::step});
  const Run run = play(rank, scenario);
  check_same(rank, with_step_named(oracles::golden::structure("h_overlap_virtual_clock"), last_update_of_stack), run,
             is_linear_or_last_update);
}

RANKED_TEST_CASE("overlap/structure_of_post_optim", clauses("OVL-23"), ranks(2), each("event", false),
                 needs(Feature::timeline), tags("reference")) {
  check_post_optim(rank, play(rank, post_optim({.event = false})), "post_optim_stream");
}

RANKED_TEST_CASE("overlap/structure_of_post_optim", clauses("OVL-23"), ranks(2), each("event", true),
                 needs(Feature::timeline, FullyShardFeature::post_optim_event), tags("reference")) {
  check_post_optim(rank, play(rank, post_optim({.event = true})), "post_optim_event");
}

}  // namespace shardproof::overlap
