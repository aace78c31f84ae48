// Does the backward hide the all-reduces of buckets?
#include <shardproof.hpp>

#include <chrono>
#include <random>
#include <vector>

#include "fixtures/oracles/bucket_times.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/times.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t layer_bytes = 80;  // a weight of 4 x 4 and its bias

Scenario seed_layers() {
  Scenario scenario = sleeping_layers({4, {.forward = 25'000'000, .backward = 50'000'000}}, 10'000'000);
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = plan.bucket_bytes = layer_bytes;
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("replicate/overlap", clauses("REP-2", "REP-4", "REP-5"), ranks(2, 3, 4),
                 each("gradients", "copies", "views"), needs(Feature::timeline),
                 needs_if("gradients", "views", ReplicateFeature::gradient_views)) {
  Scenario scenario = seed_layers();
  if (rank.param("gradients") == "views") replicate_plan(scenario.plan).gradients = BucketGradients::views;
  const Run run = play_accepted(rank, scenario);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("REP-5");
    check_time(iteration, "forward", iteration.forward(), Limit::at_least, 100ms);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_least, 310ms);
    if (iteration.index() > 0)
      check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::at_most, 312ms);
  }
  check_reduced_once(rank, run);
  check_no_race(rank, run);
}

RANKED_TEST_CASE("replicate/overlap_times", clauses("REP-21"), ranks(2, 3, 4), each("set", 0, 1, 2, 3, 4, 5),
                 needs(Feature::timeline), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  const auto pick = [&](std::int64_t least, std::int64_t most) { return replicate::pick(random, least, most); };
  std::vector<SleepingLayer> layers;
  for (std::int64_t i = 0, count = pick(2, 6); i < count; ++i)
    layers.push_back({.forward = pick(1, 60) * 1'000'000, .backward = pick(1, 60) * 1'000'000});
  Scenario scenario = sleeping_layers(layers, pick(1, 80) * 1'000'000);
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = pick(1, layer_bytes);  // so there are several buckets
  plan.bucket_bytes = pick(1, 3 * layer_bytes);
  const Run run = play_accepted(rank, scenario);
  const std::vector<oracles::Bucket> later = oracles::later_buckets(scenario, oracles::ready_order(scenario.model));
  Nanoseconds forward = 0;
  for (const SleepingLayer& layer : layers) forward += layer.forward;
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto& buckets = iteration.index() == 0 ? oracles::first_buckets(scenario) : later;
    check_time(iteration, "forward", iteration.forward(), Limit::exactly, forward);
    check_time(iteration, "forward and backward", iteration.forward_backward(), Limit::exactly,
               forward + oracles::bucket_times(scenario, buckets, rank.world().size()).backward);
  }
  check_no_race(rank, run);
}

}  // namespace shardproof::replicate
