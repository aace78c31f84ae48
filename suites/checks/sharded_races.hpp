// The clauses of soundness for engines that shard parameters: `fully_shard` and `flat_shard`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/player/run.hpp"
#include "suites/checks/kind.hpp"

namespace shardproof::suites {

inline constexpr SoundnessClauses sharded_clauses{.same_order = "OVL-15",
                                                  .nothing_twice = "OVL-16",
                                                  .nothing_left = "OVL-12",
                                                  .freed_memory = "OVL-13",
                                                  .whole_after_forward = "OVL-11",
                                                  .communicates = "OVL-3",
                                                  .no_other_gather = "OVL-18",
                                                  .no_other_reduction = "OVL-17"};

/// The clause that the race breaks. It follows from the memory of the race and from the two conflicting pieces of work.
std::string_view ordering_clause_of_sharded(const Run& run, const trace::Race& race);

/// The clauses that only the checks of this folder judge.
std::vector<std::string> clauses_of_sharded_scopes();

}  // namespace shardproof::suites
