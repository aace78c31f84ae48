// Cases in which nothing goes wrong, or only what the environment asks for.
#include <signal.h>

#include <string>

#include "tests/launcher/trouble/trouble.hpp"

RANKED_TEST_CASE("good/alone", ranks(1)) { CHECK(rank.world().size() == 1); }

RANKED_TEST_CASE("good/meets", ranks(2, 3), tags("quick")) {
  rank.world().barrier();
  CHECK(rank.world().size() > 1);
}

RANKED_TEST_CASE("good/stays", ranks(2), clauses("TRB-1")) {
  rank.measure("answer", 42, "");
  CHECK(rank.index() < 2);
}

RANKED_TEST_CASE("placed/on_two_hosts", ranks(2), hosts(2)) { CHECK(rank.hosts() == 2); }

RANKED_TEST_CASE("many/rounds", ranks(2), each("n", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)) {
  rank.world().barrier();
  CHECK(rank.param<int>("n") < 10);
}

RANKED_TEST_CASE("flaky/third_time", ranks(2), tags("counts")) {
  if (rank.index() == 0) CHECK(trouble::count() == 3);
  CHECK(rank.world().size() == 2);
}

RANKED_TEST_CASE("flaky/dies_once", ranks(2), tags("counts")) {
  if (rank.index() == 1 && trouble::count() == 1) ::raise(SIGKILL);
  rank.world().barrier();
  CHECK(true);
}
