// Cases for all properties of a test of CTest, and with all characters that CMake reads otherwise than they are.
#include <shardproof.hpp>

RANKED_TEST_CASE("ctest/passes", ranks(2, 4), tags("quick"), timeout(5s)) { CHECK(rank.world().size() > 1); }

RANKED_TEST_CASE("ctest/alone", ranks(1), more_ranks(4)) { CHECK(rank.world().size() > 0); }

RANKED_TEST_CASE("ctest/skips", ranks(2)) { rank.skip("not on this machine"); }

RANKED_TEST_CASE("ctest/fails", ranks(2), tags("slow")) { CHECK(rank.index() == 7); }

RANKED_TEST_CASE("ctest/odd", ranks(2), each("text", "x;y", "two words", "\"quoted\"", "#1", "$HOME ${HOME}", "\\")) {
  CHECK(rank.param<std::string>("text") != "");
}

RANKED_TEST_CASE("other/two;parts", ranks(1)) { CHECK(rank.index() == 0); }

RANKED_TEST_CASE("other/sizes", ranks(1), more_ranks(3)) { CHECK(rank.world().size() > 0); }
