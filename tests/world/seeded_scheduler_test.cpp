// Ranks that take turns: only one of them runs, one seed gives one interleaving, and no rank waits without end.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/world/seeded_scheduler.hpp"

using namespace shardproof;
using namespace std::chrono_literals;

namespace {

class Turns final : public world::TurnObserver {
 public:
  void began(std::string_view name) override { text += std::string(name) + ":"; }
  void given(std::optional<int> rank) override { text += rank ? " " + std::to_string(*rank) : " -"; }

  std::string text;
};

struct Side {
  int rank;
  control::ControlPage& control;
  Group& world;
  world::SeededScheduler& scheduler;
};

struct Remains {
  std::string turns;
  std::vector<std::string> errors;  ///< by rank
};

const control::Deadline far = std::chrono::steady_clock::now() + 1h;
std::string no_words() { return "late"; }

/// Runs the body on every rank, by turns. An exception of the body is the rank's error, and ends the case for the
/// others.
Remains run(int ranks, std::uint64_t seed, const std::function<void(Side&)>& body,
            std::chrono::milliseconds timeout = 30s) {
  control::ControlPage control = control::ControlPage::anonymous(ranks);
  Turns turns;
  const auto scheduler = std::make_shared<world::SeededScheduler>(ranks, seed, turns);
  control.wait_by(scheduler);
  const auto groups =
      fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }, .timeout = timeout});
  Remains remains{.turns = {}, .errors = std::vector<std::string>(groups.size())};
  {
    std::vector<std::jthread> threads;
    threads.reserve(groups.size());
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto index = static_cast<std::size_t>(rank);
        scheduler->enter(rank);
        try {
          Side side{rank, control, *groups[index], *scheduler};
          body(side);
        } catch (const std::exception& error) {
          remains.errors[index] = error.what();
          control.raise_abort(1, {rank, control::AbortReason::error, error.what()});
        }
        scheduler->leave();
      });
    }
  }
  remains.turns = turns.text;
  return remains;
}

std::vector<std::string> nothing_from(int ranks) { return std::vector<std::string>(static_cast<std::size_t>(ranks)); }

}  // namespace

TEST_CASE("only one rank runs at a time") {
  constexpr int ranks = 8;
  int unguarded = 0;  // a race, if two of them ran
  std::atomic<int> inside{0};
  std::atomic<bool> crowded{false};
  const Remains remains = run(ranks, 1, [&](Side& side) {
    for (int i = 0; i < 50; ++i) {
      if (++inside > 1) crowded = true;
      ++unguarded;
      --inside;
      side.world.barrier();
    }
  });
  CHECK(remains.errors == nothing_from(ranks));
  CHECK_FALSE(crowded);
  CHECK(unguarded == 50 * ranks);
}

TEST_CASE("one seed is one interleaving, and many seeds are many") {
  const auto turns = [](std::uint64_t seed) {
    std::string order;
    const Remains remains = run(3, seed, [&](Side& side) {
      for (int i = 0; i < 4; ++i) {
        order += static_cast<char>('a' + side.rank);
        side.world.barrier();
      }
    });
    CHECK(remains.errors == nothing_from(3));
    return remains.turns + order;
  };
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::string first = turns(seed);
    CHECK(turns(seed) == first);
    seen.insert(first);
  }
  CHECK(seen.size() == 20);
}

TEST_CASE("where a rank is about to begin a call, another may come before it") {
  std::set<int> first;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<int> order;
    run(2, seed, [&](Side& side) {
      if (side.rank == 1) order.push_back(1);
      side.control.pause();
      if (side.rank == 0) order.push_back(0);
    });
    REQUIRE(order.size() == 2);
    first.insert(order.front());
  }
  CHECK(first == std::set<int>{0, 1});
}

TEST_CASE("a schedule that begins again depends only on its own seed") {
  const auto second_part = [](std::uint64_t seed) {
    const Remains remains = run(4, seed, [](Side& side) {
      side.world.barrier();
      side.scheduler.begin(1, "again", 7);
      for (int i = 0; i < 5; ++i) side.world.barrier();
    });
    CHECK(remains.errors == nothing_from(4));
    return remains.turns.substr(remains.turns.find("again"));
  };
  const std::string expected = second_part(1);
  CHECK(expected.size() > 40);
  for (std::uint64_t seed = 2; seed <= 20; ++seed) CHECK(second_part(seed) == expected);
}

TEST_CASE("ranks that wait for each other get the error at once, whatever the deadline") {
  const Remains remains = run(3, 5, [](Side& side) {
    const auto part = side.world.split(side.rank == 2 ? 1 : 0, side.rank, "part");
    if (side.rank == 0) part->barrier();
    side.world.barrier();
  });
  for (const std::string& error : remains.errors)
    CHECK_THAT(error, Catch::Matchers::ContainsSubstring("every rank waits"));
}

TEST_CASE("a rank that leaves by an exception releases those who wait") {
  const Remains remains = run(3, 5, [](Side& side) {
    if (side.rank == 1) throw std::runtime_error("out of luck");
    side.world.barrier();
  });
  CHECK(remains.errors[1] == "out of luck");
  CHECK(remains.errors[0] == "released: rank 1: error: out of luck");
  CHECK(remains.errors[2] == "released: rank 1: error: out of luck");
}

TEST_CASE("no rank is late because another rank computes for long") {
  const Remains remains = run(
      2, 5,
      [](Side& side) {
        if (side.rank == 1) std::this_thread::sleep_for(100ms);  // the computation
        side.world.barrier();
      },
      10ms);
  CHECK(remains.errors == nothing_from(2));
}

TEST_CASE("when no rank can go on, time passes, and the rank with the earliest deadline is late") {
  const Remains remains = run(2, 5, [](Side& side) {
    const auto never = [] { return false; };
    const control::Deadline deadline = side.rank == 1 ? std::chrono::steady_clock::now() + 20ms : far;
    side.control.await(side.rank, never, 1, deadline, no_words);
  });
  CHECK(remains.errors[1] == "late");
  CHECK_THAT(remains.turns, Catch::Matchers::ContainsSubstring(" - 1"));  // no rank had the turn until then
  CHECK(remains.errors[0] == "released: rank 1: error: late");
}

TEST_CASE("what comes from outside wakes ranks that all wait") {
  const Remains remains = run(2, 5, [](Side& side) {
    std::jthread outside;
    if (side.rank == 0) {
      outside = std::jthread([&control = side.control] {
        while (control.progress(1).pid == 0) std::this_thread::yield();
        control.doom({-1, control::AbortReason::interrupted, "by hand"});
      });
    } else {
      side.control.report(1, {.pid = 1});
    }
    side.control.await(side.rank, [] { return false; }, 1, far, no_words);
  });
  CHECK(remains.errors == std::vector<std::string>(2, "released: the launcher: interrupted: by hand"));
}

TEST_CASE("a world of 128 ranks takes turns") {
  const Remains remains = run(128, 5, [](Side& side) {
    for (int i = 0; i < 3; ++i) side.world.barrier();
  });
  CHECK(remains.errors == nothing_from(128));
}

TEST_CASE("of ranks that go their own way when they come first, some seed finds the circle") {
  const auto deadlocks = [](std::uint64_t seed) {
    std::atomic<int> arrivals{0};
    const Remains remains = run(2, seed, [&](Side& side) {
      const auto a = side.world.split(0, side.rank, "a");
      const auto b = side.world.split(0, side.rank, "b");
      side.world.barrier();
      const bool rank_0_is_late = arrivals.fetch_add(1) == 1 && side.rank == 0;
      (rank_0_is_late ? b : a)->barrier();
      (rank_0_is_late ? a : b)->barrier();
    });
    return !remains.errors[0].empty();
  };
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const bool first = deadlocks(seed);
    CHECK(deadlocks(seed) == first);
    found += first ? 1 : 0;
  }
  CHECK(found > 0);
  CHECK(found < 20);
}
