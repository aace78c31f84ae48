// The guarantees of the engines' collectives on the device of this run. The harness's own collectives may guarantee
// more.
#pragma once

#include "harness/world/rank.hpp"

namespace shardproof::suites {

/// Whether a collective that rounds after each addition adds in rank order.
bool adds_in_rank_order(Rank& rank);

/// Skips the case unless sums over ranks have one result. In low precision the result of three or more ranks depends on
/// the order of additions, which a fabric does not have to guarantee.
void skip_unless_sums_have_an_order(Rank& rank);

/// Skips the case unless a waiting rank gets an error at once when another rank makes a different call. On a GPU the
/// rank waits until the deadline.
void skip_unless_calls_are_compared(Rank& rank);

}  // namespace shardproof::suites
