// Ranks must train as one process does, with each way to keep gradients, and with little memory.
#include <shardproof.hpp>

#include <algorithm>

#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

SUITE_ENGINE("replicate", "replicate");

using namespace suites;

namespace {

Scenario with_gradients(Rank& rank, Scenario scenario) {
  const bool views = rank.param("gradients") == to_string(BucketGradients::views);
  replicate_plan(scenario.plan).gradients = views ? BucketGradients::views : BucketGradients::copies;
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("replicate/train_parity", clauses("REP-1", "REP-2", "REP-4"), ranks(1, 2, 3, 4), more_ranks(5, 7, 8),
                 each("gradients", "copies", "views"), each("many", false, true), needs(Feature::timeline),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  const Run run = play_accepted(rank, with_gradients(rank, exact_net(rank.param<bool>("many"), training())));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
  check_freed_memory(rank, run);
}

// A weight of three dimensions, whose gradient goes to a bucket like any other.
RANKED_TEST_CASE("replicate/convolution", clauses("REP-1", "REP-2", "REP-4"), ranks(1, 2, 3, 4),
                 each("step", "eager", "compiled"), needs(Feature::timeline, Feature::convolution),
                 needs_if("step", "compiled", ReplicateFeature::compiled_step)) {
  Scenario scenario = exact_net(true, training());
  Module& layer = scenario.model.root.children.back();
  layer.kind = ModuleKind::convolution;
  layer.channels = 3;
  if (rank.param("step") == "compiled") replicate_plan(scenario.plan).compile.emplace();
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
  check_freed_memory(rank, run);
}

RANKED_TEST_CASE("replicate/optimizers", clauses("REP-1"), ranks(2, 3), each("optimizer", "momentum", "adam", "adamw"),
                 each("many", false, true)) {
  Scenario scenario = exact_net(rank.param<bool>("many"), training());
  scenario.model.init_divisor = 8;
  scenario.script.input_divisor = 8;
  scenario.script.given.clear();
  const std::string& optimizer = rank.param("optimizer");
  scenario.plan.optimizer = optimizer == "momentum"
                                ? Optimizer{.rate = 1.0 / 16, .momentum = 0.5}
                                : Optimizer{.kind = optimizer == "adam" ? OptimizerKind::adam : OptimizerKind::adamw,
                                            .rate = 1.0 / 64,
                                            .weight_decay = 0.125};
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f64, {.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-3},
                 Moves::some_parameter);
}

// Gradients stay from one iteration to the next, and zeros take the place of old ones.
RANKED_TEST_CASE("replicate/zeroed_gradients", clauses("REP-1", "REP-2", "REP-4"), ranks(1, 2, 4),
                 each("gradients", "copies", "views"), needs(Feature::timeline),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  std::vector<Action> body = training();
  body.back().to_zero = true;
  const Run run = play_accepted(rank, with_gradients(rank, exact_net(true, std::move(body))));
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
}

// The gradient of a layer that is used twice, and of one whose weight another has, is ready after the last use.
RANKED_TEST_CASE("replicate/shared_parameters", clauses("REP-1", "REP-2", "REP-4"), ranks(1, 2, 3, 4),
                 each("gradients", "copies", "views"),
                 needs(Feature::timeline, Feature::shared_parameters, Feature::module_groups),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  Scenario scenario = with_gradients(rank, four_layers(3));
  std::vector<Module>& layers = scenario.model.root.children;
  layers[2].tied_to = "fc1";
  layers.push_back({.name = "again", .kind = ModuleKind::use, .target = "fc2"});
  replicate_plan(scenario.plan).first_bucket_bytes = 12;
  replicate_plan(scenario.plan).bucket_bytes = 36;
  const Run run = play_accepted(rank, with_last_step(scenario));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
}

RANKED_TEST_CASE("replicate/memory", clauses("REP-14"), ranks(1, 2, 3), each("gradients", "copies", "views"),
                 each("many", false, true), each("to", "none", "zero"), needs(Feature::timeline),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  std::vector<Action> body = training();
  body.back().to_zero = rank.param("to") == "zero";
  const Run run = play_accepted(rank, with_gradients(rank, exact_net(rank.param<bool>("many"), std::move(body))));
  const std::uint64_t all = 4 * trainable_elements(run.scenario().model);
  // While a backward runs, the gradients of a module exist together, in addition to their bucket. With zeroed views,
  // this is so after the first gradients.
  const std::uint64_t at_once = rank.param<bool>("many") ? 4 * (24 + 6) : all;
  const bool views = rank.param("gradients") == to_string(BucketGradients::views);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(iteration.peak(MemoryClass::reduce_input).bytes <= (views ? 0 : all));
    const bool stay = rank.param("to") == "zero";
    // Buckets are made in the first iteration, and anew in the second, where old ones may still hold gradients.
    const bool makes_buckets = iteration.index() == 0 || (stay && iteration.index() == 1);
    const std::uint64_t more = makes_buckets ? all : stay ? 0 : at_once;
    CHECK(iteration.peak(MemoryClass::gradient).bytes <= all + (views ? more : 0));
    CHECK(iteration.live_after(MemoryClass::gradient, ActionKind::backward).bytes == all);
  }
  check_memory_classes(rank, run);
  check_freed_memory(rank, run);
}

RANKED_TEST_CASE("replicate/failed_forward", clauses("REP-15"), ranks(1, 2, 3),
                 needs(Feature::timeline, Feature::failed_forward)) {
  std::vector<Action> body = gradients_only();
  body.insert(body.begin(), {.kind = ActionKind::forward, .fails_in = "fc3"});
  Scenario scenario = four_layers(4);
  scenario.script.segments.front().body = std::move(body);
  replicate_plan(scenario.plan).first_bucket_bytes = replicate_plan(scenario.plan).bucket_bytes = 80;
  const Run run = play_accepted(rank, with_last_step(scenario));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
}

namespace {

std::size_t agreements(const Iteration& iteration, const Kind& kind) {
  const std::vector<fact::Collective> calls = iteration.collectives();
  return static_cast<std::size_t>(
      std::ranges::count_if(calls, [&](const auto& call) { return kind.is_agreement(call); }));
}

// In an agreement, the host may wait once for each rank.
std::size_t most_waits(Rank& rank, const Iteration& iteration, const Kind& kind) {
  return agreements(iteration, kind) * static_cast<std::size_t>(rank.world().size());
}

}  // namespace

// The host continues while reductions run. It waits only when ranks agree: when the trainer is made or first runs, and
// when buckets are rebuilt.
RANKED_TEST_CASE("replicate/host_waits", clauses("REP-16"), ranks(2, 3), each("gradients", "copies", "views"),
                 needs(Feature::timeline), needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  const Run run = play_accepted(rank, with_gradients(rank, exact_net(true, training())));
  const Kind& kind = kind_of(run.scenario().plan);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(host_waits(iteration) <= most_waits(rank, iteration, kind));
  }
}

// All later iterations run the graphs of the first one.
RANKED_TEST_CASE("replicate/compiled_host_waits", clauses("REP-16"), ranks(2, 3),
                 needs(Feature::timeline, ReplicateFeature::compiled_step)) {
  Scenario scenario = exact_net(true, training());
  replicate_plan(scenario.plan).compile.emplace();
  const Run run = play_accepted(rank, scenario);
  const Kind& kind = kind_of(scenario.plan);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(host_waits(iteration) <= most_waits(rank, iteration, kind));
    if (iteration.index() > 0) CHECK(agreements(iteration, kind) == 0);
  }
}

// An engine that cannot reduce a pair of tensors says so.
RANKED_TEST_CASE("replicate/pair_of_tensors", clauses("REP-18"), ranks(1, 2, 3), also_with_discarded_module()) {
  Scenario scenario = exact_net(true, training());
  scenario.model.root.children.back().tensor = TensorKind::two_tensor;
  if (refusal(rank, scenario)) return check_refused_or_unsupported(rank, scenario, "create", {"1.weight"});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
}

}  // namespace shardproof::replicate
