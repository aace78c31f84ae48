// Which gradients are reduced together, and in which order.
#include <shardproof.hpp>

#include <random>
#include <string>
#include <vector>

#include "fixtures/oracles/buckets.hpp"
#include "fixtures/oracles/difference.hpp"
#include "suites/checks/own_gradients.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

// The four layers of the seed, with the limits of PyTorch: 16.008, 32.016 and 16.008 MB.
RANKED_TEST_CASE("replicate/bucketing_eager", clauses("REP-20"), ranks(2), needs(Feature::timeline),
                 tags("reference")) {
  Scenario scenario = four_layers(2000);
  scenario.script.segments.front() = {.iterations = 3,
                                      .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}}};
  const Run run = play_accepted(rank, scenario);
  check_bucket_sizes(rank, run);
  const std::vector<Iteration> all = run.iterations();
  std::vector<std::uint64_t> elements;
  for (const fact::Collective& call : bucket_calls(all.back())) elements.push_back(call.in_count);
  CHECK(elements == std::vector<std::uint64_t>{4'002'000, 8'004'000, 4'002'000});
}

// A weight of 512 x 512 has exactly the bytes of PyTorch's first limit.
RANKED_TEST_CASE("replicate/bucket_of_exactly_the_limit", clauses("REP-20"), ranks(2), needs(Feature::timeline),
                 tags("reference")) {
  Scenario scenario = four_layers(512);
  for (Module& layer : scenario.model.root.children) layer.bias = false;
  scenario.script.segments.front().iterations = 3;
  scenario.script.segments.front().body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}};
  const Run run = play_accepted(rank, scenario);
  check_bucket_sizes(rank, run);
  const std::vector<Iteration> all = run.iterations();
  CHECK(bucket_calls(all.back()).size() == 2);
}

// The first backward that syncs gives the order, wherever it comes. A bucket has the gradients of one layer.
RANKED_TEST_CASE("replicate/buckets_after_no_sync", clauses("REP-20"), ranks(2, 3),
                 needs(Feature::timeline, Feature::gradient_accumulation), tags("reference")) {
  Scenario scenario = four_layers(4);
  ReplicatePlan& plan = replicate_plan(scenario.plan);
  plan.first_bucket_bytes = plan.bucket_bytes = 80;
  scenario.script.segments.insert(scenario.script.segments.begin(), without_sync(scenario.script.segments.front()));
  const Run run = play_accepted(rank, scenario);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    std::vector<std::uint64_t> elements;
    for (const fact::Collective& call : bucket_calls(iteration)) elements.push_back(call.in_count);
    CHECK(elements == (iteration.index() == 0   ? std::vector<std::uint64_t>{}
                       : iteration.index() == 1 ? std::vector<std::uint64_t>{80}
                                                : std::vector<std::uint64_t>(4, 20)));
  }
}

// Any layers, and limits that some bucket often meets exactly.
RANKED_TEST_CASE("replicate/bucket_rule", clauses("REP-20"), ranks(2, 4), each("set", 0, 1, 2, 3, 4, 5),
                 needs(Feature::timeline), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  Scenario scenario = random_layers(random);
  scenario.script.keep_tensors = true;
  draw_limits(scenario, oracles::ready_order(scenario.model), rank.param<int>("set") % 2 == 0, random);
  const Run run = play_accepted(rank, scenario);
  check_bucket_sizes(rank, run);
  if (rank.world().size() > 1) check_bucket_members(rank, run);
  check_reduced_once(rank, run);
  check_no_race(rank, run);
}

}  // namespace shardproof::replicate
