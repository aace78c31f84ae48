// From meta to trained, by hooks and in low precision: everything at once, on many ranks.
#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/extensions/hooks.hpp"
#include "suites/extensions/meta.hpp"
#include "suites/extensions/scenarios.hpp"

namespace shardproof::extensions {

using namespace suites;

namespace {

Run play_end_to_end(Rank& rank, const Blocks& how, Distribution init = Distribution::uniform) {
  Scenario scenario = blocks(how);
  scenario.model.init = init;
  scenario.plan.optimizer = {.kind = OptimizerKind::adam, .rate = 1e-2};
  scenario.plan.initialisation = Initialisation::meta;
  scenario.plan.mixed_precision.param = DType::bf16;
  scenario.script.input[0] = 1;
  train(
      scenario, 3,
      {extend(TensorKind::two_tensor, ExtensionKind::components), {ActionKind::materialize}, {ActionKind::initialize}});
  const Run run = play_accepted(rank, scenario);
  // Which way a sum in single precision ends may change a last bit in bf16; a step that is missed is ten times as far
  // off.
  check_training(rank, run, oracles::Arithmetic::f32, {.loss = 1e-2, .gradient = 1e-2, .parameter = 1e-3});
  check_materialized_by(rank, run, ActionKind::materialize);
  check_paired(rank, run);
  const auto judged = rank.under("EXT-2");
  for (const Callback* call : run.callbacks({.kind = CallbackKind::post_all_gather}))
    CHECK(std::get<PostAllGather>(call->detail).param_dtype == DType::bf16);
  CHECK(std::ssize(hooked_parameters(run)) == 2 * how.count);
  return run;
}

constexpr char end_to_end_test[] = "test_fully_shard_extensions.py::test_all_gather_extensions_end_to_end";

}  // namespace

RANKED_TEST_CASE("extensions/end_to_end", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-4", "EXT-7", "EXT-30"), on_threads(),
                 ranks(2, 8), each("reshard", false, true),
                 needs(Feature::all_gather_extensions, Feature::mixed_precision, Feature::meta_initialisation),
                 seed(end_to_end_test)) {
  const Run run = play_end_to_end(rank, {.rows = 8, .reshard = reshard_of(rank)});
  check_out(rank, run);
  check_contributions(rank, run);
}

// As in the seed, which cuts at two deviations as well. Our deviation is smaller, so that nothing grows from block to
// block.
RANKED_TEST_CASE("extensions/end_to_end", clauses("EXT-1", "EXT-2", "EXT-3", "EXT-4", "EXT-7", "EXT-30"), on_threads(),
                 ranks(2, 8), each("init", "truncated_normal"), each("reshard", false, true),
                 needs(Feature::all_gather_extensions, Feature::mixed_precision, Feature::meta_initialisation,
                       Feature::truncated_normal),
                 seed(end_to_end_test)) {
  const Run run = play_end_to_end(rank, {.rows = 8, .reshard = reshard_of(rank)}, Distribution::truncated_normal);
  check_out(rank, run);
  check_contributions(rank, run);
}

RANKED_TEST_CASE("extensions/end_to_end", clauses("EXT-30"), on_threads(), ranks(128), each("reshard", false),
                 needs(Feature::all_gather_extensions, Feature::mixed_precision, Feature::meta_initialisation),
                 seed(end_to_end_test)) {
  // Every rank computes the expected values of all ranks, so the model is smaller.
  play_end_to_end(rank, {.count = 2, .rows = 2, .reshard = reshard_of(rank)});
}

}  // namespace shardproof::extensions
