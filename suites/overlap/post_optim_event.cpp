// Can the first all-gather of an iteration overlap with computation that does not depend on it?
#include <random>
#include <vector>

#include "fixtures/oracles/overlap_times.hpp"
#include "harness/player/play.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/checks/times.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

constexpr char seed_test[] = "test_fully_shard_overlap.py::test_fully_shard_post_optim_event_overlap";

std::vector<Nanoseconds> expected_times(const PostOptim& how, int world) {
  return oracles::post_optim_times(how.iterations,
                                   {.sleep_forward = how.sleep_forward.count(),
                                    .sleep_backward = how.sleep_backward.count(),
                                    .all_gather = world > 1 ? how.all_gather.count() : 0},
                                   how.event);
}

// Which iterations have an all-gather to wait for.
enum class Exposed { none, first, all };

// The seed's bounds, for each iteration: its computation, its all-gather and 4 ms more.
void check_bounds_of_iterations(Rank& rank, const Run& run, const PostOptim& how, Exposed exposed) {
  const std::chrono::nanoseconds computation = how.sleep_forward + how.sleep_backward;
  const bool hides = how.event && rank.world().size() > 1;  // the event does
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    {
      const auto judged = rank.under("OVL-3");
      check_time(iteration, "it", iteration.time(), Limit::at_least, computation);
    }
    const bool waits = exposed == Exposed::all || (exposed == Exposed::first && iteration.index() == 0);
    const auto judged = rank.under(hides && !waits ? "OVL-8" : "OVL-14");
    check_time(iteration, "it", iteration.time(), Limit::at_most, computation + (waits ? how.all_gather : 0ns) + 4ms);
  }
}

void play_within_bounds(Rank& rank, bool event) {
  const PostOptim how{.event = event};
  const Run run = play(rank, post_optim(how));
  check_no_race(rank, run);
  rank.measure_ns("five_iterations_ns", run.total());
  check_plan_is_communicated(rank, run);
  check_bounds_of_iterations(rank, run, how,
                             rank.world().size() == 1 ? Exposed::none
                             : event                  ? Exposed::first
                                                      : Exposed::all);
}

void check_post_optim_times(Rank& rank, const PostOptim& how) {
  const Run run = play(rank, post_optim(how));
  check_no_race(rank, run);
  check_nothing_else_is_communicated(rank, run);
  const auto judged = rank.under("OVL-22");
  const std::vector<Nanoseconds> expected = expected_times(how, rank.world().size());
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_time(iteration, "it", iteration.time(), Limit::exactly,
               expected.at(static_cast<std::size_t>(iteration.index())));
  }
}

void play_seed_times(Rank& rank, bool event) {
  const Run run = play(rank, post_optim({.event = event}));
  check_no_race(rank, run);
  check_nothing_else_is_communicated(rank, run);
  const auto judged = rank.under("OVL-22");
  const bool alone = rank.world().size() == 1;
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const bool exposed = !alone && (iteration.index() == 0 || !event);
    check_time(iteration, "it", iteration.time(), Limit::exactly, exposed ? 85ms : 75ms);
  }
  CHECK(std::chrono::nanoseconds(run.total()) == (alone ? 375ms : event ? 385ms : 425ms));
}

void play_any_costs(Rank& rank, bool event) {
  std::mt19937_64 random(rank.seed());
  const auto duration = [&random] { return std::chrono::milliseconds(1 + random() % 60); };
  for (int round = 0; round < 4; ++round) {
    check_post_optim_times(rank, {.sleep_forward = duration(),
                                  .sleep_backward = duration(),
                                  .all_gather = duration(),
                                  .iterations = static_cast<int>(3 + random() % 3),
                                  .event = event});
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/post_optim_event", clauses("OVL-3", "OVL-5", "OVL-14"), ranks(1, 2, 3, 4),
                 each("event", false), needs(Feature::timeline), seed(seed_test)) {
  play_within_bounds(rank, false);
}

RANKED_TEST_CASE("overlap/post_optim_event", clauses("OVL-3", "OVL-5", "OVL-8", "OVL-14"), ranks(1, 2, 3, 4),
                 each("event", true), needs(Feature::timeline, FullyShardFeature::post_optim_event), seed(seed_test)) {
  play_within_bounds(rank, true);
}

RANKED_TEST_CASE("overlap/post_optim_times", clauses("OVL-22", "OVL-24"), ranks(1, 2, 3, 4), each("event", false),
                 needs(Feature::timeline), tags("reference")) {
  play_seed_times(rank, false);
}

RANKED_TEST_CASE("overlap/post_optim_times", clauses("OVL-22", "OVL-24"), ranks(1, 2, 3, 4), each("event", true),
                 needs(Feature::timeline, FullyShardFeature::post_optim_event), tags("reference")) {
  play_seed_times(rank, true);
}

RANKED_TEST_CASE("overlap/post_optim_any_costs", clauses("OVL-22", "OVL-24"), ranks(1, 2, 3, 4), each("event", false),
                 needs(Feature::timeline), tags("reference")) {
  play_any_costs(rank, false);
}

RANKED_TEST_CASE("overlap/post_optim_any_costs", clauses("OVL-22", "OVL-24"), ranks(1, 2, 3, 4), each("event", true),
                 needs(Feature::timeline, FullyShardFeature::post_optim_event), tags("reference")) {
  play_any_costs(rank, true);
}

RANKED_TEST_CASE("overlap/event_before_training", clauses("OVL-5", "OVL-8"), ranks(2, 3, 4),
                 needs(Feature::timeline, FullyShardFeature::post_optim_event)) {
  // Given before the first forward: then even that one's all-gather waits for nothing else.
  const PostOptim how;
  Scenario scenario = post_optim(how);
  Script::Segment first = scenario.script.segments.front();
  first.iterations = 1;
  first.body.insert(first.body.begin(), {ActionKind::post_optim_event});
  scenario.script.segments.front().iterations = how.iterations - 1;
  scenario.script.segments.insert(scenario.script.segments.begin(), first);
  const Run run = play(rank, scenario);
  check_no_race(rank, run);
  check_bounds_of_iterations(rank, run, how, Exposed::none);
  CHECK(std::chrono::nanoseconds(run.total()) <= how.iterations * (how.sleep_forward + how.sleep_backward) + 4ms);
  check_plan_is_communicated(rank, run);
}

}  // namespace shardproof::overlap
