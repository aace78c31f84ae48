// As many cases as a suite has, each with next to nothing in it: what is left is the price of a case.
#include <shardproof.hpp>

RANKED_TEST_CASE("crowd/of", ranks(2), each("a", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9), each("b", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
                 each("c", 0, 1, 2)) {
  CHECK(rank.index() >= 0);
}
