#include "suites/checks/fabric.hpp"
#include "harness/player/play.hpp"

#include <memory>

namespace shardproof::suites {

namespace {

FabricCapabilities capabilities(Rank& rank) {
  const std::unique_ptr<Platform> platform = make_platform(rank);
  return platform->world().capabilities();
}

}  // namespace

bool adds_in_rank_order(Rank& rank) { return capabilities(rank).rank_ordered; }

void skip_unless_sums_have_an_order(Rank& rank) {
  if (rank.world().size() > 2 && !adds_in_rank_order(rank))
    rank.skip("the fabric does not promise to add in the order of ranks");
}

void skip_unless_calls_are_compared(Rank& rank) {
  if (!capabilities(rank).pre_checked)
    rank.skip("the fabric does not compare the calls of ranks: they wait until the deadline");
}

}  // namespace shardproof::suites
