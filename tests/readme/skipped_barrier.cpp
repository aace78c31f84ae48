// The hang that README.md shows.
#include <shardproof.hpp>

RANKED_TEST_CASE("mine/skipped_barrier", ranks(2)) {
  if (rank.index() == 0) rank.world().barrier();
  CHECK(rank.world().size() == 2);
}
