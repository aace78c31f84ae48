// How calls end that cannot be completed: by an abort, by a death, by a deadline, by a circle of waits.
#include <csignal>
#include <thread>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <sys/time.h>

#include "harness/control/flight_ring.hpp"
#include "harness/tensor/tensor.hpp"
#include "tests/fabric/worlds.hpp"

using namespace shardproof;
using namespace shardproof::testing;

namespace {

template <class F>
std::vector<std::string> on_both(int size, const F& body, const Settings& settings = {}) {
  auto failures = run_threads(size, body, settings);
  const auto others = run_processes(size, body, settings);
  failures.insert(failures.end(), others.begin(), others.end());
  return failures;
}

void expect_working(Group& group) {
  float total = 0;
  for (int rank = 0; rank < group.size(); ++rank) total += static_cast<float>(rank);
  expect(group.all_reduce(iota(static_cast<float>(group.rank()), 1)) == iota(total, 1),
         fmt::format("group {} works", group.name()));
}

}  // namespace

TEST_CASE("an abort releases blocked peers, and the same groups serve the next case") {
  const int size = GENERATE(2, 5);
  const Body aborted = [](Side& side) {
    const auto part = side.world->split(side.rank == 0 ? 0 : 1, 0, "part");
    side.next_case();
    for (int round = 0; round < 20; ++round) {
      const int culprit = round % side.size;
      // Some calls that all make, then one that the culprit never enters.
      if (side.rank == culprit) {
        for (int i = 0; i < round % 3; ++i) expect_working(*side.world);
        expect(side.control.raise_abort(side.epoch,
                                        {culprit, control::AbortReason::failed, fmt::format("round {}", round)}),
               "first to abort");
      } else {
        try {
          for (int i = 0; i < round % 3; ++i) expect_working(*side.world);
          side.world->all_reduce(iota(0, round % 2 == 0 ? 1 : 100'000));
          expect(false, "completed without the culprit");
        } catch (const control::Released& released) {
          expect(released.abort().culprit == culprit && released.abort().text == fmt::format("round {}", round),
                 released.what());
        }
        // A body that swallows the release is released again.
        thrown_by<control::Released>([&] { side.world->barrier(); });
        if (part->size() > 1) thrown_by<control::Released>([&] { part->barrier(); });
      }
      side.next_case();
      expect_working(*side.world);
      expect_working(*part);
      side.next_case();  // or the next culprit's abort would find some of us still there
    }
  };
  CHECK(on_both(size, aborted) == all_well(2 * size));
}

TEST_CASE("a call that all have made is complete for all, though one aborts the moment after") {
  const Body hasty = [](Side& side) {
    for (int round = 0; round < 100; ++round) {
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{40'000}})
        side.world->all_reduce(iota(static_cast<float>(side.rank), count));
      side.control.raise_abort(side.epoch, {side.rank, control::AbortReason::failed, "after the call"});
      thrown_by<control::Released>([&] { side.world->barrier(); });
      side.next_case();
    }
  };
  const int size = GENERATE(2, 3);
  CHECK(on_both(size, hasty) == all_well(2 * size));
}

TEST_CASE("sequence numbers begin anew with every case") {
  const Body numbers = [](Side& side) {
    for (int round = 0; round < 3; ++round) {
      for (std::uint64_t i = 0; i < 4; ++i) expect(side.world->run({}).sequence == i, "number");
      side.control.agree(side.rank, {}, std::chrono::steady_clock::now() + std::chrono::minutes(1));
      if (side.rank == 1) side.control.raise_abort(side.epoch, {1, control::AbortReason::failed, ""});
      if (side.rank == 0) thrown_by<control::Released>([&] { side.world->barrier(); });
      side.next_case();
    }
  };
  CHECK(on_both(2, numbers) == all_well(4));
}

TEST_CASE("a doomed world releases everybody for good") {
  const Body doomed = [](Side& side) {
    if (side.rank == 1) side.control.doom({-1, control::AbortReason::died, "rank 7: SIGKILL"});
    const std::string text = thrown_by<control::Released>([&] {
      while (true) side.world->barrier();
    });
    expect_contains(text, "rank 7: SIGKILL");
    thrown_by<control::Released>([&] { side.next_case(); });
  };
  CHECK(on_both(3, doomed) == all_well(6));
}

TEST_CASE("the deadline names the missing rank and its last call") {
  const Body late = [](Side& side) {
    if (side.rank == 2) {  // before the others wait, which give up soon
      side.control.flight(2).join_group(7, "another", std::array{2});
      side.control.flight(2).enter_call(7, side.epoch + 1, Descriptor{.sequence = 7});
    }
    side.next_case();
    if (side.rank == 2) {
      while (!side.control.aborted(side.epoch)) std::this_thread::yield();  // computes: no circle closes
      thrown_by<control::Released>([&] { side.world->barrier(); });
      return;
    }
    // The first to give up throws DeadlineExceeded and releases the others with its words.
    try {
      side.world->all_gather(iota(0, 3), "layers.1");
      expect(false, "completed without rank 2");
    } catch (const control::DeadlineExceeded& deadline) {
      expect_contains(deadline.what(),
                      fmt::format(R"(rank {}: all_gather #0 of 3 f32 "layers.1" in group world)", side.rank));
      expect_contains(deadline.what(), "rank 2 (last call: barrier #7 in group another)");
    } catch (const control::Released& released) {
      expect(released.abort().reason == control::AbortReason::deadline, released.what());
      expect_contains(released.what(), "rank 2 (last call: barrier #7 in group another)");
    }
  };
  CHECK(run_threads(3, late, {.timeout = std::chrono::milliseconds(30)}) == all_well(3));
}

TEST_CASE("every waiting rank reports a circle of waits at once, in the same words") {
  const Body circle = [](Side& side) {
    const auto left = side.world->split(side.rank < 2 ? 0 : -1, 0, "left");
    const auto right = side.world->split(side.rank > 0 ? 0 : -1, 0, "right");
    for (int round = 0; round < 30; ++round) {
      expect_working(*side.world);
      // 0 waits for 1 in left, 1 for 2 in right, 2 for 0 and 1 in world.
      Group& group = side.rank == 0 ? *left : side.rank == 1 ? *right : *side.world;
      const std::string text = thrown_by<control::Deadlock>([&] { group.barrier("x"); });
      expect(text == R"(every rank waits and no rank can continue: rank 0 in barrier #0 "x" in group left for rank 1, )"
                     R"(rank 1 in barrier #0 "x" in group right for rank 2, )"
                     R"(rank 2 in barrier #1 "x" in group world for ranks 0, 1)" ||
                 round == 0,
             text);
      thrown_by<control::Deadlock>([&] { side.world->barrier(); });
      side.next_case();
    }
  };
  CHECK(on_both(3, circle) == all_well(6));
}

TEST_CASE("a rank that ends the case without a call that the others wait in closes the circle") {
  const Body early = [](Side& side) {
    for (int round = 0; round < 50; ++round) {
      if (side.rank != round % side.size) {
        const std::string text = thrown_by<control::Deadlock>([&] { side.world->barrier("x"); });
        expect_contains(text, fmt::format("rank {} in the agreement between cases", round % side.size));
      }
      side.next_case();
      expect_working(*side.world);
    }
  };
  CHECK(on_both(2, early) == all_well(4));
  CHECK(on_both(4, early) == all_well(8));
}

TEST_CASE("a rank that dies anywhere leaves peers that can be released, and closes no circle") {
  const int size = GENERATE(2, 4);
  for (int round = 0; round < 20; ++round) {
    const int victim = round % size;
    const Body dying = [&](Side& side) {
      if (side.rank == victim) {
        // The signal kills the process at a random instruction. No handler catches it.
        const itimerval soon{{0, 0}, {0, 100 + 300 * round}};
        ::setitimer(ITIMER_REAL, &soon, nullptr);
      }
      const std::string text = thrown_by<control::Released>([&] {
        while (true) {
          side.world->all_reduce(iota(0, 2000));
          side.world->barrier();
        }
      });
      expect_contains(text, fmt::format("rank {}: died: signal {}", victim, SIGALRM));
    };
    auto expected = all_well(size);
    expected[static_cast<std::size_t>(victim)] = fmt::format("signal {}", SIGALRM);
    CHECK(run_processes(size, dying) == expected);
  }
}
