// Random scenarios that combine extensions and precisions with other features.
#include <shardproof.hpp>

#include "suites/checks/generated.hpp"

namespace shardproof::extensions {

RANKED_TEST_CASE("extensions/generated", clauses("EXT-50"), ranks(2, 3, 4),
                 each("generator", suites::generator_version), drawn_by("seed", 8)) {
  suites::check_generated(rank, {.kind = "fully_shard",
                                 .without = {},
                                 .about = {"all_gather_extensions", "mixed_precision", "half_precision"},
                                 .is_wanted = [](const Scenario& scenario) {
                                   const auto traits = scenario::traits(scenario);
                                   return traits.contains("all_gather_extensions") ||
                                          traits.contains("mixed_precision");
                                 }});
}

}  // namespace shardproof::extensions
