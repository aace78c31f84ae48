#include <shardproof.hpp>

RANKED_TEST_CASE("mine/all_gather_keeps_rank_order", ranks(2, 4)) {
  auto mine = iota(rank.index() * 10, 3);  // 3 elements, distinct per rank
  auto all = rank.world().all_gather(mine);
  for (int r = 0; r < rank.world().size(); ++r) CHECK(all.row(r) == iota(r * 10, 3));
}
