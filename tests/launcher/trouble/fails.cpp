// Cases that end badly while all their processes live: their world goes on with the next one.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>

#include <catch2/generators/catch_generators.hpp>

#include "tests/launcher/trouble/trouble.hpp"

using shardproof::iota;
using trouble::gone;
using trouble::meet;

RANKED_TEST_CASE("bad/check", ranks(2)) { CHECK(rank.index() == 0); }

RANKED_TEST_CASE("fails/requires", ranks(2)) {
  if (rank.index() == 1) {
    gone();
    REQUIRE(rank.world().size() == 3);
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("fails/throws", ranks(2)) {
  if (rank.index() == 1) {
    gone();
    throw std::runtime_error("out of paper");
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("fails/throws_no_exception", ranks(2)) {
  if (rank.index() == 1) {
    gone();
    throw 7;
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("fails/checks_nothing", ranks(2)) { meet(rank); }

RANKED_TEST_CASE("fails/one_passes", ranks(2)) {
  CHECK(rank.index() == 0);
  meet(rank);
}

RANKED_TEST_CASE("fails/asks_for_another_size", ranks(2)) {
  gone();
  try {
    rank.world().all_reduce(iota(0, 3 + rank.index()));
  } catch (...) {
    meet(rank);
    throw;
  }
  CHECK(true);
}

RANKED_TEST_CASE("fails/asks_for_another_collective", ranks(2)) {
  if (rank.index() == 0) {
    rank.world().barrier();
  } else {
    rank.world().all_reduce(iota(0, 3));
  }
  CHECK(true);
}

/// 0 waits for 1 in one group, 1 for 0 in another.
RANKED_TEST_CASE("fails/waits_in_a_circle", ranks(2)) {
  const auto left = rank.world().split(0, 0, "left");
  const auto right = rank.world().split(0, 0, "right");
  (rank.index() == 0 ? left : right)->barrier();
  CHECK(true);
}

RANKED_TEST_CASE("fails/leaves_the_others_waiting", ranks(3)) {
  CHECK(true);
  if (rank.index() != 2) meet(rank);
}

RANKED_TEST_CASE("fails/swallows_its_release", ranks(2)) {
  if (rank.index() == 1) {
    gone();
    REQUIRE(rank.world().size() == 3);
  }
  try {
    meet(rank);
  } catch (...) {
  }
  CHECK(true);
}

RANKED_TEST_CASE("fails/gives_up_waiting", ranks(2), timeout(std::chrono::seconds(4))) {
  // Late, and not too late: it is there again before its own time is over.
  if (rank.index() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3300));
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("fails/has_a_section", ranks(2)) {
  SECTION("of its own") { CHECK(true); }
}

RANKED_TEST_CASE("fails/has_a_generator", ranks(2)) { CHECK(GENERATE(1, 2) > 0); }

RANKED_TEST_CASE("skip/asked", ranks(2), clauses("TRB-2")) { rank.skip("not today"); }

RANKED_TEST_CASE("skip/asked_by_one", ranks(3)) {
  if (rank.index() == 1) {
    gone();
    rank.skip("no paper");
  }
  meet(rank);
  CHECK(true);
}

RANKED_TEST_CASE("skip/while_another_fails", ranks(2)) {
  if (rank.index() == 0) CHECK(false);
  meet(rank);
  if (rank.index() == 1) rank.skip("not interested");
  CHECK(true);
}
