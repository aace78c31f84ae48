// A plain TEST_CASE beside a ranked one would silently never run.
#include <shardproof.hpp>

RANKED_TEST_CASE("mine/ranked", ranks(1)) { CHECK(true); }
TEST_CASE("left behind") { CHECK(false); }
