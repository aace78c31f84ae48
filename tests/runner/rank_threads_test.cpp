// Ranks as threads of this process: what becomes of the others when one of them cannot go on?
#include "harness/runner/rank_threads.hpp"

#include "harness/control/control_page.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "harness/world/seeded_scheduler.hpp"

using namespace shardproof;

namespace {

class NoObserver final : public world::TurnObserver {
 public:
  void began(std::string_view) override {}
  void given(std::optional<int>) override {}
};

const control::Deadline far = std::chrono::steady_clock::now() + std::chrono::hours(1);

world::Connection connection_of(int ranks, std::shared_ptr<world::SeededScheduler> scheduler) {
  world::Connection shared;
  shared.control = std::make_shared<control::ControlPage>(control::ControlPage::anonymous(ranks));
  shared.scheduler = std::move(scheduler);
  if (shared.scheduler) shared.control->wait_by(shared.scheduler);
  return shared;
}

protocol::WorldPlan plan_for(int ranks) {
  protocol::WorldPlan plan;
  plan.size = ranks;
  return plan;
}

}  // namespace

TEST_CASE("every rank has its own thread") {
  std::mutex mutex;
  std::set<int> ranks;
  std::set<std::thread::id> threads;
  runner::run_rank_threads(plan_for(5), connection_of(5, nullptr), [&](int rank) {
    const std::lock_guard lock(mutex);
    ranks.insert(rank);
    threads.insert(std::this_thread::get_id());
  });
  CHECK(ranks == std::set<int>{0, 1, 2, 3, 4});
  CHECK(threads.size() == 5);
  CHECK_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST_CASE("a rank that cannot go on dooms the world of the others, and is the one that is heard") {
  NoObserver no_observer;
  for (const bool by_turns : {false, true}) {
    INFO("by turns: " << by_turns);
    const world::Connection shared =
        connection_of(3, by_turns ? std::make_shared<world::SeededScheduler>(3, 1, no_observer) : nullptr);
    int released = 0;
    std::mutex mutex;
    const auto take_part = [&](int rank) {
      if (rank == 1) throw std::runtime_error("no room for rank 1");
      try {
        shared.control->agree(rank, {}, far);
      } catch (const control::Released&) {
        const std::lock_guard lock(mutex);
        ++released;
        throw;
      }
    };
    CHECK_THROWS_WITH(runner::run_rank_threads(plan_for(3), shared, take_part), "no room for rank 1");
    CHECK(released == 2);
    REQUIRE(shared.control->doomed());
    CHECK(shared.control->doomed()->culprit == 1);
  }
}

TEST_CASE("where all ranks were released, that is what is said") {
  const world::Connection shared = connection_of(2, nullptr);
  shared.control->doom({-1, control::AbortReason::interrupted, "by hand"});
  CHECK_THROWS_AS(
      runner::run_rank_threads(plan_for(2), shared, [&](int rank) { shared.control->agree(rank, {}, far); }),
      control::Released);
}
