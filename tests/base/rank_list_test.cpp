#include "harness/base/rank_list.hpp"

#include <catch2/catch_test_macros.hpp>
#include <numeric>

using shardproof::base::rank_list;

TEST_CASE("ranks are listed as people read them") {
  CHECK(base::rank_list({3}) == "rank 3");
  CHECK(base::rank_list({0, 1}) == "ranks 0, 1");
  CHECK(base::rank_list({0, 2, 3}) == "ranks 0, 2, 3");
  CHECK(base::rank_list({0, 1, 2}) == "ranks 0…2");
  CHECK(base::rank_list({0, 1, 2, 3, 5, 6, 8, 9, 10}) == "ranks 0…3, 5, 6, 8…10");
}

TEST_CASE("long lists of ranks are cut, and say of how many") {
  std::vector<int> even(100);
  std::iota(even.begin(), even.end(), 0);
  CHECK(base::rank_list(even) == "ranks 0…99");
  for (int& rank : even) rank *= 2;
  CHECK(base::rank_list(even) == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 92 more");
}
