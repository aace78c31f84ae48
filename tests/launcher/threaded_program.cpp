// Cases for ranks that are threads: they talk into each other's assertions, share memory, and wait for each other in a
// circle if they come in a certain order.
#include <atomic>
#include <catch2/catch_message.hpp>
#include <chrono>
#include <memory>
#include <shardproof.hpp>
#include <stdexcept>
#include <thread>

RANKED_TEST_CASE("talk/into_each_other", ranks(2, 3)) {
  INFO("in scope on rank " << rank.index());
  UNSCOPED_INFO("with the next assertion of rank " << rank.index());
  CHECK(rank.world().all_reduce(iota(1, 1)) == iota(rank.index(), 1));
  {
    INFO("out of scope on rank " << rank.index());
    rank.world().barrier();
  }
  CAPTURE(rank.index());
  CHECK_FALSE(rank.world().all_reduce(iota(1, 1)) == iota(rank.world().size(), 1));
  if (rank.index() == 1) {
    INFO("on its way out");
    throw std::runtime_error("rank 1 leaves");
  }
  CHECK_NOTHROW(rank.world().barrier());
}

RANKED_TEST_CASE("talk/much", ranks(4), each("round", 1, 2, 3)) {
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i, rank.index());
    INFO("turn " << i << " of rank " << rank.index());
    CHECK(i >= 0);
  }
  rank.world().barrier();
}

namespace {

std::atomic<int> arrivals{0};

}  // namespace

/// The planted mistake: each rank makes both calls, and where rank 0 comes second it makes them in the other order.
static void call_in_a_circle(Rank& rank) {
  const auto a = rank.world().split(0, rank.index(), "a");
  const auto b = rank.world().split(0, rank.index(), "b");
  rank.world().barrier();
  const bool is_second = arrivals.fetch_add(1) % 2 == 1;
  const bool turns_round = is_second && rank.index() == 0;
  (turns_round ? b : a)->barrier();
  (turns_round ? a : b)->barrier();
  CHECK(true);
}

RANKED_TEST_CASE("order/circle", ranks(2)) { call_in_a_circle(rank); }

RANKED_TEST_CASE("asked/circle", ranks(2), on_threads()) { call_in_a_circle(rank); }

RANKED_TEST_CASE("asked/one_memory", ranks(2, 8, 128), on_threads()) {
  static std::atomic<int> present{0};
  ++present;
  rank.world().barrier();
  CHECK(present == rank.world().size());
  rank.world().barrier();
  --present;
}

RANKED_TEST_CASE("asked/fails", ranks(2), on_threads(), timeout(20s)) {
  rank.world().barrier();
  CHECK(rank.index() == 0);
}

RANKED_TEST_CASE("beside/fails", ranks(3)) {
  rank.world().barrier();
  CHECK(rank.index() == 1);
}

/// One stays behind, where others may be on their way into a call and have not come to wait in it.
RANKED_TEST_CASE("stand/still", ranks(4)) {
  rank.world().barrier();
  while (rank.index() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
  rank.world().barrier();
  CHECK(true);
}

/// Longer than its peers would wait, if that counted.
RANKED_TEST_CASE("slow/computes", ranks(2)) {
  if (rank.index() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(850));
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("size/largest", ranks(128)) {
  rank.world().barrier();
  CHECK(rank.world().all_reduce(iota(1, 1)) == iota(128, 1));
}

RANKED_TEST_CASE("size/too_large", ranks(129)) { CHECK(rank.world().size() == 129); }

RANKED_TEST_CASE("thread/of_its_own", ranks(2)) {
  std::jthread helper([] { CHECK(true); });
  CHECK(rank.index() < 2);
}
