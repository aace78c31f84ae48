// Random scenarios of any features, in several buckets.
#include <shardproof.hpp>

#include <algorithm>

#include "fixtures/oracles/buckets.hpp"
#include "suites/checks/generated.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

namespace {

// Some bucket closes before the last gradient.
bool has_buckets(const Scenario& scenario) {
  const ReplicatePlan& plan = replicate_plan(scenario.plan);
  return plan.first_bucket_bytes < oracles::bytes_of(oracles::trainable_gradients(scenario));
}

}  // namespace

RANKED_TEST_CASE("replicate/generated", clauses("REP-17"), ranks(2, 3, 4), each("generator", suites::generator_version),
                 drawn_by("seed", 11)) {
  suites::check_generated(rank, {.kind = "replicate", .without = {}, .about = {}, .is_wanted = has_buckets});
}

}  // namespace shardproof::replicate
