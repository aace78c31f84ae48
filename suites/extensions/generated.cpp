// Random scenarios that combine extensions and precisions with other features.
#include <shardproof.hpp>

#include <algorithm>

#include "harness/scenario/generator/generator.hpp"
#include "suites/checks/generated.hpp"

namespace shardproof::extensions {

// Scenarios of odd seeds have an extension, and those of even seeds a precision.
RANKED_TEST_CASE("extensions/generated", clauses("EXT-50"), ranks(2, 3, 4), each("generator", suites::generator_version),
                 each("seed", 1, 2, 3, 4), needs(Feature::timeline)) {
  suites::check_generated(rank,
                          {.kind = "fully_shard", .without = {}, .is_wanted = [](const scenario::Scenario& scenario, std::uint64_t seed) {
                             const std::vector<Feature> needed = scenario::needed_features(scenario);
                             const Feature wanted = seed % 2 == 1 ? Feature::all_gather_extensions : Feature::mixed_precision;
                             return std::ranges::find(needed, wanted) != needed.end();
                           }});
}

}  // namespace shardproof::extensions
