// Ranks that print.
#include <cstdio>

#include "tests/launcher/trouble/trouble.hpp"

RANKED_TEST_CASE("prints/before_another_case", ranks(2)) {
  std::fputs("out of a case that passes\n", stdout);
  std::fputs("err of a case that passes\n", stderr);
  CHECK(rank.world().size() == 2);
}

/// Prints without an end of its last line, and flushes nothing.
RANKED_TEST_CASE("prints/and_fails", ranks(2)) {
  std::fprintf(stdout, "out \x1b[31m of rank %d", rank.index());
  for (int line = 1; line <= 20; ++line) std::fprintf(stderr, "line %d of rank %d\n", line, rank.index());
  CHECK(rank.index() == 0);
}
