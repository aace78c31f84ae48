// Asks what the engines' collectives promise on the device of this run. The harness's own collectives may promise more.
#pragma once

#include "harness/world/rank.hpp"

namespace shardproof::suites {

/// Whether a collective that rounds after each addition adds in the order of ranks.
bool adds_in_rank_order(Rank& rank);

/// Skips the case unless sums over ranks have one result. In low precision the result of three and more ranks depends on the order of
/// additions, which a fabric does not have to promise.
void skip_unless_sums_have_an_order(Rank& rank);

/// Skips the case unless a rank that waits in a collective gets an error at once when another rank makes a different call. A GPU waits until
/// the deadline.
void skip_unless_calls_are_compared(Rank& rank);

}  // namespace shardproof::suites
