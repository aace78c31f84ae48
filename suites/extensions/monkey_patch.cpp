// Extensions of single parameters that are registered after the memory exists. They must run, and only for these
// parameters.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "fixtures/oracles/rounding.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "suites/checks/clauses.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/exact_inputs.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/hooks.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

// The int8 extension has the minimal form: its second tensor is smaller than the shard, and the full form requires the
// shard's size.
Action extension_of(const Rank& rank, std::string parameter) {
  if (rank.param("extension") == "int8")
    return extend(std::move(parameter), ExtensionKind::int8, ExtensionForm::minimal);
  return extend(std::move(parameter), ExtensionKind::bf16);
}

// Checks the dtype of the first tensor that each pre hook of a parameter contributes.
void check_contributed_dtype(const Rank& rank, const Run& run, const std::string& parameter, DType dtype) {
  const auto calls = run.callbacks({.kind = CallbackKind::pre_all_gather, .name = parameter});
  CAPTURE(parameter);
  const auto judged = rank.under("EXT-5");
  CHECK_FALSE(calls.empty());
  for (const Callback* call : calls) CHECK(call->tensors.at(0).dtype() == dtype);
}

// Fails unless the first step makes a weight of l1 that the extension cannot represent: the second forward computes
// with another one. `capture` is the one after that step.
void check_rounding_shows(Rank& rank, const Scenario& scenario, std::size_t capture) {
  const auto judged = judging(rank, Finding::values);
  const auto expected = oracles::train_serially(scenario, rank.world().size(), oracles::Arithmetic::f32);
  const std::vector<oracles::NamedValues>& parameters = expected.at(capture).parameters;
  const auto patched = std::ranges::find(parameters, "l1.weight", &oracles::NamedValues::name);
  REQUIRE(patched != parameters.end());
  const bool is_int8 = rank.param("extension") == "int8";  // multiples of 1/16
  CHECK(std::ranges::any_of(patched->values, [is_int8](double weight) {
    return is_int8 ? std::trunc(16 * weight) != 16 * weight : oracles::rounded_to(DType::bf16, weight) != weight;
  }));
}

constexpr char monkey_patch_test[] = "test_fully_shard_extensions.py::test_all_gather_extensions_monkey_patch";

}  // namespace

RANKED_TEST_CASE("extensions/monkey_patch", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-4", "EXT-5", "EXT-7"),
                 ranks(1, 2, 3, 4), each("extension", "bf16", "int8"), each("reshard", false, true),
                 needs(Feature::all_gather_extensions, Feature::meta_initialisation), seed(monkey_patch_test)) {
  Scenario scenario = layers({TensorKind::plain, TensorKind::plain}, reshard_of(rank));
  scenario.plan.initialisation = Initialisation::meta;
  // Steps so small that weights lose bits of them where an extension rounds, and nowhere else.
  scenario.plan.optimizer.rate = 1.0 / 256;
  scenario.model.loss.dot_seed = 40;  // gradients -2, 1 and 2
  train(scenario, 2, {{ActionKind::materialize}, {ActionKind::initialize}, extension_of(rank, "l1.weight")});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_rounding_shows(rank, scenario, 0);
  const auto judged = rank.under("EXT-4");
  CHECK(hooked_parameters(run) == std::vector<std::string>{"l1.weight"});
  check_contributed_dtype(rank, run, "l1.weight", rank.param("extension") == "int8" ? DType::i8 : DType::bf16);
  const auto judged_calls = rank.under("EXT-2");
  // In both iterations a hook runs once in forward, and again in backward if no parameter stays whole. If there are
  // all-gathers, it runs once for each of them.
  CHECK(run.count_callbacks({.kind = CallbackKind::pre_all_gather, .name = "l1.weight"}) >=
        (rank.param<bool>("reshard") ? 4U : 2U));
  check_paired(rank, run);
  check_out(rank, run);
  check_contributions(rank, run);
  check_same_order(rank, run);
}

// As in the seed: every weight has hooks, and Adam makes three steps.
RANKED_TEST_CASE("extensions/monkey_patch", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-4", "EXT-5", "EXT-7"),
                 ranks(1, 2, 3, 4), each("extension", "bf16", "int8"), each("optimizer", "adam"),
                 each("reshard", false, true), needs(Feature::all_gather_extensions, Feature::meta_initialisation),
                 seed(monkey_patch_test)) {
  Scenario scenario = layers({TensorKind::plain, TensorKind::plain, TensorKind::plain}, reshard_of(rank));
  scenario.plan.optimizer = {.kind = OptimizerKind::adam, .rate = 1e-2};
  give_one_hot_inputs(scenario.script);
  scenario.plan.initialisation = Initialisation::meta;
  std::vector<Action> before{{ActionKind::materialize}, {ActionKind::initialize}};
  std::vector<std::string> weights;
  for (const ParameterShape& parameter : parameters(scenario.model)) {
    weights.push_back(parameter.name);
    before.push_back(extension_of(rank, parameter.name));
  }
  train(scenario, 3, before);
  // No step comes before the first capture.
  std::vector<Action>& first = scenario.script.segments.front().body;
  first.insert(std::ranges::find(first, ActionKind::step, &Action::kind), {ActionKind::capture});
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, {.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-3, .exact = 1},
                 Moves::some_parameter);
  check_rounding_shows(rank, scenario, 1);
  const auto judged = rank.under("EXT-4");
  CHECK(hooked_parameters(run) == weights);
  const bool reshards = rank.param<bool>("reshard");
  for (const std::string& parameter : weights) {
    check_contributed_dtype(rank, run, parameter, rank.param("extension") == "int8" ? DType::i8 : DType::bf16);
    const auto judged_calls = rank.under("EXT-2");
    CHECK(run.count_callbacks({.kind = CallbackKind::pre_all_gather, .name = parameter}) >= (reshards ? 6U : 3U));
  }
  check_paired(rank, run);
  check_out(rank, run);
  check_contributions(rank, run);
  check_same_order(rank, run);
}

RANKED_TEST_CASE("extensions/instance_before_kind", clauses("EXT-5"), ranks(1, 2, 3, 4),
                 each("first", "instance", "kind"), needs(Feature::all_gather_extensions)) {
  Scenario scenario = layers({TensorKind::low_precision, TensorKind::low_precision, TensorKind::plain}, {});
  std::vector<Action> extensions{extend("l1.weight", ExtensionKind::bf16),
                                 extend(TensorKind::low_precision, ExtensionKind::int8, ExtensionForm::minimal)};
  if (rank.param("first") == "kind") std::ranges::reverse(extensions);
  train(scenario, 1, extensions);
  const Run run = play_accepted(rank, scenario);
  CHECK(hooked_parameters(run) == std::vector<std::string>{"l0.weight", "l1.weight"});
  check_contributed_dtype(rank, run, "l0.weight", DType::i8);
  check_contributed_dtype(rank, run, "l1.weight", DType::bf16);
  check_training(rank, run, oracles::Arithmetic::f32, {});
}

}  // namespace shardproof::extensions
