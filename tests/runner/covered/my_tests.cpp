// Cases whose rank 1 hangs, in a program that is built with coverage. coverage_test.py looks at the counters of the
// lines that rank 1 ran before it was ended.
#include <unistd.h>

#include <shardproof.hpp>

using namespace shardproof;

namespace {

int steps = 0;

void hang() {
  for (;;) ::pause();
}

}  // namespace

RANKED_TEST_CASE("mine/hangs", ranks(3)) {
  if (rank.index() == 1) {
    ++steps;  // only the hanging rank is here
    hang();
  }
  rank.world().barrier();
  CHECK(steps == 0);
}

RANKED_TEST_CASE("mine/passes", ranks(3)) {
  rank.world().barrier();
  CHECK(steps == 0);  // every rank is here
}
