// Can the first all-gather of an iteration overlap with computation that does not depend on it?
#include <random>

#include "fixtures/oracles/overlap_times.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

constexpr char seed_test[] = "test_fully_shard_overlap.py::test_fully_shard_post_optim_event_overlap";

Nanoseconds expected_total(const PostOptim& how, int world) {
  return oracles::post_optim_times(how.iterations,
                                   {.sleep_forward = how.sleep_forward.count(),
                                    .sleep_backward = how.sleep_backward.count(),
                                    .all_gather = world > 1 ? how.all_gather.count() : 0},
                                   how.event);
}

// The seed's bounds: 4 ms to spare in every iteration; one exposed all-gather in every iteration, one in all when there is an event.
void play_within_bounds(Rank& rank, bool event) {
  const PostOptim how{.event = event};
  const scenario::Run run = rank.play(post_optim(how));
  rank.measure_ns("five_iterations_ns", run.total());
  const std::chrono::nanoseconds total(run.total()), computation = how.iterations * (how.sleep_forward + how.sleep_backward);
  const auto exposed = rank.world().size() == 1 ? 0ns : how.all_gather;

  check_plan_is_communicated(rank, run);
  CHECK(total >= computation);
  CHECK(total <= computation + how.iterations * (exposed + 4ms));
  if (event) CHECK(total <= computation + exposed + how.iterations * 4ms);
  check_no_race(rank, run);
}

void play_seed_times(Rank& rank, bool event) {
  const scenario::Run run = rank.play(post_optim({.event = event}));
  CHECK(std::chrono::nanoseconds(run.total()) == (rank.world().size() == 1 ? 375ms : event ? 385ms : 425ms));
  check_nothing_else_is_communicated(rank, run);
}

void play_any_costs(Rank& rank, bool event) {
  std::mt19937_64 random(rank.seed());
  const auto duration = [&random] { return std::chrono::milliseconds(1 + random() % 60); };
  for (int round = 0; round < 4; ++round) {
    const PostOptim how{.sleep_forward = duration(),
                        .sleep_backward = duration(),
                        .all_gather = duration(),
                        .iterations = static_cast<int>(2 + random() % 4),
                        .event = event};
    const scenario::Run run = rank.play(post_optim(how));
    CHECK(run.total() == expected_total(how, rank.world().size()));
    check_nothing_else_is_communicated(rank, run);
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/post_optim_event", clauses("OVL-3", "OVL-5", "OVL-14"), ranks(1, 2, 3, 4), each("event", false),
                 needs(Feature::timeline, Feature::fully_shard), seed(seed_test)) {
  play_within_bounds(rank, false);
}

RANKED_TEST_CASE("overlap/post_optim_event", clauses("OVL-3", "OVL-5", "OVL-8", "OVL-14"), ranks(1, 2, 3, 4), each("event", true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event), seed(seed_test)) {
  play_within_bounds(rank, true);
}

RANKED_TEST_CASE("overlap/post_optim_times", clauses("OVL-22", "OVL-24"), ranks(1, 2, 3, 4), each("event", false),
                 needs(Feature::timeline, Feature::fully_shard), tags("reference")) {
  play_seed_times(rank, false);
}

RANKED_TEST_CASE("overlap/post_optim_times", clauses("OVL-22", "OVL-24"), ranks(1, 2, 3, 4), each("event", true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event), tags("reference")) {
  play_seed_times(rank, true);
}

RANKED_TEST_CASE("overlap/post_optim_any_costs", clauses("OVL-22", "OVL-24"), ranks(1, 2, 3, 4), each("event", false),
                 needs(Feature::timeline, Feature::fully_shard), tags("reference")) {
  play_any_costs(rank, false);
}

RANKED_TEST_CASE("overlap/post_optim_any_costs", clauses("OVL-22", "OVL-24"), ranks(1, 2, 3, 4), each("event", true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event), tags("reference")) {
  play_any_costs(rank, true);
}

RANKED_TEST_CASE("overlap/event_before_training", clauses("OVL-5", "OVL-8"), ranks(2, 3, 4),
                 needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event)) {
  // Given before the first forward: then even that one's all-gather waits for nothing else.
  const PostOptim how;
  scenario::Scenario scenario = post_optim(how);
  scenario.script.segments.insert(scenario.script.segments.begin(), {.body = {{scenario::ActionKind::post_optim_event}}});
  const scenario::Run run = rank.play(scenario);
  const std::chrono::nanoseconds computation = how.iterations * (how.sleep_forward + how.sleep_backward);
  CHECK(std::chrono::nanoseconds(run.total()) <= computation + 4ms);
  check_plan_is_communicated(rank, run);
  check_no_race(rank, run);
}

}  // namespace shardproof::overlap
