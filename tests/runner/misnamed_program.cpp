// Declarations with every mistake; such a program refuses to do anything.
#include <shardproof.hpp>

RANKED_TEST_CASE("no_slash", ranks(2)) { CHECK(true); }
RANKED_TEST_CASE("twice/declared", ranks(2)) { CHECK(true); }
RANKED_TEST_CASE("twice/declared", ranks(2, 4)) { CHECK(true); }
