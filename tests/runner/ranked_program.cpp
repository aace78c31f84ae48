// Cases that end in every way in which a case can end. Run by ranked_program_test.cpp.
#include <shardproof.hpp>

#include <unistd.h>

#include <catch2/catch_message.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness/control/control_page.hpp"

RANKED_TEST_CASE("mine/all_gather_keeps_rank_order", ranks(2, 4)) {
  auto mine = iota(rank.index() * 10, 3);
  auto all = rank.world().all_gather(mine);
  for (int r = 0; r < rank.world().size(); ++r) CHECK(all.row(r) == iota(r * 10, 3));
}

RANKED_TEST_CASE("ends/passed", ranks(1, 2, 3)) {
  rank.world().barrier();
  CHECK(rank.world().rank() == rank.index());
}

RANKED_TEST_CASE("ends/failed_check", ranks(2), clauses("END-1")) {
  INFO("before");
  const int index = rank.index();
  CHECK(index == 0);
  rank.world().barrier();
  CHECK(rank.seed() != 0);
}

RANKED_TEST_CASE("ends/failed_in_scopes", ranks(2), clauses("END-1", "END-2")) {
  CHECK(rank.index() != 1);
  {
    const auto judged = rank.under("END-3");
    CHECK(rank.index() != 1);
    {
      // Rank 0 has other scopes than rank 1, at the same time.
      const auto inner = rank.under(rank.index() == 1 ? "END-4" : "END-5", "END-6");
      rank.world().barrier();
      CHECK(rank.index() != 1);
    }
    CHECK(rank.index() != 1);
  }
  CHECK(rank.index() != 1);
}

RANKED_TEST_CASE("ends/thrown_in_scope", ranks(1), clauses("END-1")) {
  const auto judged = rank.under("END-3");
  CHECK(rank.clauses().size() == 1);
  throw std::runtime_error("out of luck");
}

RANKED_TEST_CASE("ends/failed_require", ranks(3)) {
  REQUIRE(rank.index() != 1);
  rank.world().barrier();
}

RANKED_TEST_CASE("ends/failed_require_after_seed", ranks(2)) {
  const auto seed = rank.seed();
  REQUIRE(seed == 0);
}

RANKED_TEST_CASE("ends/require_in_a_call", ranks(2)) {
  if (rank.index() == 1) FAIL("rank 1 leaves");
  REQUIRE(rank.world().all_gather(iota(0, 1)).numel() == 2);
}

RANKED_TEST_CASE("ends/thrown", ranks(2)) {
  CHECK(rank.index() >= 0);
  if (rank.index() == 1) {
    INFO("about to throw");
    throw std::runtime_error("out of luck");
  }
  rank.world().barrier();
}

RANKED_TEST_CASE("ends/swallowed_release", ranks(2)) {
  if (rank.index() == 1) throw std::runtime_error("rank 1 leaves");
  try {
    rank.world().barrier();
  } catch (...) {
  }
  CHECK(rank.index() == 1);
}

RANKED_TEST_CASE("ends/unnoticed_abort", ranks(2)) {
  CHECK(true);
  if (rank.index() == 1) throw std::runtime_error("rank 1 leaves");
}

RANKED_TEST_CASE("ends/section", ranks(2)) {
  CHECK(true);
  SECTION("one") { CHECK(true); }
  SECTION("two") { CHECK(true); }
}

RANKED_TEST_CASE("ends/generate", ranks(2)) {
  const int i = GENERATE(1, 2, 3);
  CHECK(i > 0);
}

RANKED_TEST_CASE("ends/no_assertion", ranks(2)) { rank.world().barrier(); }

RANKED_TEST_CASE("ends/no_assertion_on_one_rank", ranks(2)) {
  rank.world().barrier();
  if (rank.index() == 0) CHECK(true);
}

RANKED_TEST_CASE("ends/skipped_by_one", ranks(3)) {
  CHECK(true);
  if (rank.index() == 2) rank.skip("rank 2 has no luck");
  rank.world().barrier();
}

RANKED_TEST_CASE("ends/skipped_by_all", ranks(2)) { rank.skip("nobody wants to"); }

RANKED_TEST_CASE("ends/skipped_by_macro", ranks(2)) {
  if (rank.index() == 1) SKIP("by Catch2's macro");
  rank.world().barrier();
}

RANKED_TEST_CASE("ends/skipped_after_failure", ranks(2)) {
  CHECK(rank.index() != 1);
  if (rank.index() == 1) rank.skip("too late");
  rank.world().barrier();
}

RANKED_TEST_CASE("ends/different_call_counts", ranks(2)) {
  CHECK(true);
  rank.world().barrier();
  if (rank.index() == 0) rank.world().barrier();
}

RANKED_TEST_CASE("ends/mismatch", ranks(2), clauses("END-7")) {
  CHECK(true);
  rank.world().all_gather(iota(0, 2 + rank.index()));
}

RANKED_TEST_CASE("ends/late", ranks(2)) {
  const auto given_up = std::filesystem::temp_directory_path() / ("shardproof-given-up-" + std::to_string(::getppid()));
  CHECK(true);
  if (rank.index() == 1) {
    // Busy with something else until the other one has given up waiting.
    while (!std::filesystem::exists(given_up)) std::this_thread::yield();
    std::filesystem::remove(given_up);
    rank.world().barrier();
  }
  try {
    rank.world().barrier();
  } catch (const shardproof::control::DeadlineExceeded&) {
    std::ofstream{given_up};
    throw;
  }
}

RANKED_TEST_CASE("ends/exit_in_body", ranks(2)) {
  CHECK(true);
  rank.world().barrier();  // both have begun the case
  if (rank.index() == 1) ::_exit(0);
  rank.world().barrier();
}

RANKED_TEST_CASE("ends/abort_in_body", ranks(2)) {
  CHECK(true);
  rank.world().barrier();  // both have begun the case
  if (rank.index() == 1) std::abort();
  rank.world().barrier();
}

RANKED_TEST_CASE("ends/needs", ranks(2), needs(Feature::timeline)) { CHECK(false); }

RANKED_TEST_CASE("says/measured", ranks(2), each("event", false, true), each("n", 1, 2), tags("slow"),
                 seed("test_x.py::test_y")) {
  rank.measure_ns("time_ns", rank.param<bool>("event") ? 385 : 425);
  CHECK(rank.param<int>("n") >= 1);
  CHECK(rank.param("W") == "2");
  CHECK_THROWS_AS(rank.param("absent"), std::out_of_range);
  CHECK_THROWS_AS(rank.param<bool>("n"), std::invalid_argument);
  WARN("a warning");
}

RANKED_TEST_CASE("says/values", ranks(1)) {
  CHECK(iota(1, 2) == iota(2, 2));
  CHECK(std::vector{shardproof::ReduceOp::sum} == std::vector{shardproof::ReduceOp::avg});
}

RANKED_TEST_CASE("says/splits", ranks(4)) {
  auto half = rank.world().split(rank.index() % 2, rank.index(), "half");
  CHECK(half->size() == 2);
  CHECK(half->all_reduce(iota(1, 1)) == iota(2, 1));
}

RANKED_TEST_CASE("placed/on_two_hosts", ranks(4), hosts(2)) {
  const auto& hosts = rank.placement().hosts();
  REQUIRE(rank.hosts() == 2);
  CHECK(hosts[0].ranks == std::vector{0, 1});
  CHECK(hosts[1].ranks == std::vector{2, 3});
  CHECK(rank.placement().host_of(rank.index()).name == (rank.index() < 2 ? "n1" : "n2"));
  CHECK(rank.local_rank() == rank.index() % 2);
  CHECK(rank.placement().grid().ranks_per_host == 2);
}

RANKED_TEST_CASE("threads/asked", ranks(2), on_threads()) {
  rank.world().barrier();
  CHECK(rank.world().size() == 2);
}
