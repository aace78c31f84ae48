// Random scenarios that combine features.
#include <shardproof.hpp>

#include "suites/checks/generated.hpp"

namespace shardproof::overlap {

// Several groups, so that there is something to overlap.
RANKED_TEST_CASE("overlap/generated", clauses("OVL-50"), ranks(2, 3, 4), each("generator", suites::generator_version),
                 drawn_by("seed", 8)) {
  suites::check_generated(rank, {.kind = "fully_shard",
                                 .without = {"all_gather_extensions", "mixed_precision", "half_precision"},
                                 .about = {},
                                 .is_wanted = [](const Scenario& scenario) {
                                   return scenario.plan.engine.get()->wrapped_modules().size() > 2;
                                 }});
}

}  // namespace shardproof::overlap
