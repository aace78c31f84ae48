// Gradients that wait: no value of a later mean can show whether ranks communicated in between. So calls are counted,
// and the gradients that wait are compared with the rank's own.
#include <shardproof.hpp>

#include "suites/checks/comparison.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

namespace {

Scenario accumulating(Rank& rank, std::vector<Action> body) {
  Scenario scenario = four_layers(4);
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = plan.bucket_bytes = 80;
  if (rank.param("gradients") == "views") plan.gradients = BucketGradients::views;
  scenario.script.segments = {{.iterations = 3, .body = std::move(body)}};
  return with_last_step(std::move(scenario));
}

std::size_t buckets_of_backward(const Iteration& iteration, int backward) {
  return calls_in_backward(iteration, backward).size();
}

}  // namespace

RANKED_TEST_CASE("replicate/no_sync", clauses("REP-1", "REP-4", "REP-6"), ranks(1, 2, 3, 4), more_ranks(8, 16, 32, 64),
                 each("gradients", "copies", "views"), needs(Feature::timeline, Feature::gradient_accumulation),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  const Run run = play_accepted(rank, accumulating(rank, {sync(false),
                                                          {ActionKind::forward},
                                                          {ActionKind::backward},
                                                          {ActionKind::capture},
                                                          {ActionKind::forward},
                                                          {ActionKind::backward},
                                                          {ActionKind::capture},
                                                          sync(true),
                                                          {ActionKind::forward},
                                                          {ActionKind::backward},
                                                          {ActionKind::capture},
                                                          {ActionKind::zero_grad}}));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  const bool alone = rank.world().size() == 1;
  std::vector<Iteration> accumulating_ones = steady_iterations(run);
  accumulating_ones.pop_back();  // that of the step
  for (const Iteration& iteration : accumulating_ones) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-6");
    CHECK(buckets_of_backward(iteration, 1) == 0);
    CHECK(buckets_of_backward(iteration, 2) == 0);
    CHECK((buckets_of_backward(iteration, 3) > 0) == !alone);
  }
  check_sound(rank, run);
}

// Without a zero_grad a mean is averaged again, together with what each rank adds to it.
RANKED_TEST_CASE("replicate/two_synced_backwards", clauses("REP-1", "REP-4"), ranks(1, 2, 4),
                 each("gradients", "copies", "views"), each("to", "none", "zero"), needs(Feature::timeline),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  Action clear{.kind = ActionKind::zero_grad, .to_zero = rank.param("to") == "zero"};
  const Run run = play_accepted(rank, accumulating(rank, {{ActionKind::forward},
                                                          {ActionKind::backward},
                                                          {ActionKind::capture},
                                                          {ActionKind::forward},
                                                          {ActionKind::backward},
                                                          {ActionKind::capture},
                                                          clear}));
  check_training(rank, run, oracles::Arithmetic::f32, equal_values, Moves::some_parameter);
  check_sound(rank, run);
}

RANKED_TEST_CASE("replicate/switch_counts_in_forward", clauses("REP-6"), ranks(2, 3), each("gradients", "copies"),
                 needs(Feature::timeline, Feature::gradient_accumulation)) {
  const Run run = play_accepted(rank, accumulating(rank, {sync(true),
                                                          {ActionKind::forward},
                                                          sync(false),
                                                          {ActionKind::backward},
                                                          {ActionKind::capture},
                                                          {ActionKind::forward},
                                                          sync(true),
                                                          {ActionKind::backward},
                                                          {ActionKind::capture},
                                                          {ActionKind::zero_grad}}));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  std::vector<Iteration> switching_ones = steady_iterations(run);
  switching_ones.pop_back();  // that of the step
  for (const Iteration& iteration : switching_ones) {
    CAPTURE(iteration.index());
    CHECK(buckets_of_backward(iteration, 1) > 0);
    CHECK(buckets_of_backward(iteration, 2) == 0);
  }
}

// A backward of two forwards makes each gradient ready once.
RANKED_TEST_CASE("replicate/two_forwards", clauses("REP-1", "REP-2", "REP-4"), ranks(1, 2, 3),
                 each("gradients", "copies", "views"), needs(Feature::timeline),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  const Run run = play_accepted(rank, accumulating(rank, {{ActionKind::forward},
                                                          {ActionKind::forward},
                                                          {ActionKind::backward},
                                                          {ActionKind::capture},
                                                          {ActionKind::zero_grad}}));
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_division_rounds(rank), Moves::some_parameter);
  check_reduced_once(rank, run);
  check_sound(rank, run);
}

}  // namespace shardproof::replicate
