// Finds the rank that holds up the others.
#include "launcher/run/blame.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace shardproof;
using namespace shardproof::launcher;

namespace {

using Ranks = std::vector<int>;

bool no_rank(int /*rank*/) { return false; }

/// `rank` waits for `missing`, who have not come to where it is.
protocol::PeerWait waits_for(int rank, Ranks missing) {
  protocol::PeerWait wait;
  wait.rank = rank;
  wait.missing = std::move(missing);
  return wait;
}

}  // namespace

TEST_CASE("a missing rank is to blame, a rank that waits for it is not") {
  CHECK(find_culprits(
            {.waits = {waits_for(0, {1})}, .overdue = {0, 1}, .alive = {0, 1}, .turn = {}, .is_absent = no_rank}) ==
        Ranks{1});
}

TEST_CASE("the rank to blame does not have to be overdue") {
  CHECK(find_culprits({.waits = {waits_for(0, {2}), waits_for(1, {2})},
                       .overdue = {0, 1},
                       .alive = {0, 1, 2},
                       .turn = {},
                       .is_absent = no_rank}) == Ranks{2});
}

TEST_CASE("a rank that never joined outranks one that is busy") {
  const auto two_is_absent = [](int rank) { return rank == 2; };
  CHECK(
      find_culprits({.waits = {}, .overdue = {0, 1, 2}, .alive = {0, 1, 2}, .turn = {}, .is_absent = two_is_absent}) ==
      Ranks{2});
}

TEST_CASE("ranks that all wait are to blame together") {
  CHECK(find_culprits({.waits = {waits_for(0, {1}), waits_for(1, {0})},
                       .overdue = {0, 1},
                       .alive = {0, 1},
                       .turn = {},
                       .is_absent = no_rank}) == Ranks{0, 1});
}

TEST_CASE("where ranks take turns, the one that has it is to blame, whatever the others do") {
  CHECK(find_culprits(
            {.waits = {waits_for(1, {0})}, .overdue = {0, 2}, .alive = {0, 1, 2}, .turn = 1, .is_absent = no_rank}) ==
        Ranks{1});
}
