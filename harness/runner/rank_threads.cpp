#include "harness/runner/rank_threads.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "harness/protocol/ending.hpp"
#include "harness/runner/crash_handler.hpp"
#include "harness/world/seeded_scheduler.hpp"

namespace shardproof::runner {

namespace {

// The time between a rank's first turn and its last turn, if ranks take turns.
class Turns {
 public:
  Turns(world::SeededScheduler* scheduler, int rank) : scheduler_(scheduler) {
    if (scheduler_ != nullptr) scheduler_->enter(rank);
  }
  ~Turns() {
    if (scheduler_ != nullptr) scheduler_->leave();
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

 private:
  world::SeededScheduler* scheduler_;
};

struct Ends {
  explicit Ends(int ranks) : errors(static_cast<std::size_t>(ranks)), releases(static_cast<std::size_t>(ranks)) {}
  std::vector<std::exception_ptr> errors, releases;  ///< by rank
};

void rethrow_first(const std::vector<std::exception_ptr>& thrown) {
  for (const std::exception_ptr& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

}  // namespace

void run_rank_threads(const protocol::WorldPlan& plan, const world::Connection& connection,
                      const std::function<void(int rank)>& take_part) {
  Ends ends(plan.size);
  {
    std::latch all_are_there(plan.size);  // no rank begins before all exist: a missing rank could not be reported later
    std::vector<std::jthread> ranks;
    ranks.reserve(static_cast<std::size_t>(plan.size));
    for (int rank = 0; rank < plan.size; ++rank) {
      const auto take_turns = [&, rank] {
        const RankThread known(rank);
        all_are_there.arrive_and_wait();
        const auto index = static_cast<std::size_t>(rank);
        const Turns turns(connection.scheduler.get(), rank);
        try {
          take_part(rank);
        } catch (const control::Released&) {
          ends.releases[index] = std::current_exception();
        } catch (const std::exception& error) {
          // No other part reports this to the other ranks: the process lives on with them.
          connection.control->doom({.culprit = rank, .reason = control::AbortReason::error, .text = error.what()});
          ends.errors[index] = std::current_exception();
        }
      };
      try {
        ranks.emplace_back(take_turns);
      } catch (const std::system_error& error) {
        // The threads that have started wait for this thread.
        fmt::print(stderr, "shardproof: cannot start the thread of rank {} of {}: {}\n", rank, plan.size, error.what());
        std::_Exit(protocol::rank_could_not_join);
      }
    }
  }
  rethrow_first(ends.errors);
  rethrow_first(ends.releases);
}

}  // namespace shardproof::runner
