// Can the first all-gather of an iteration overlap with computation that does not depend on it?
#include <random>

#include "fixtures/oracles/overlap_times.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

namespace {

constexpr char seed_test[] = "test_fully_shard_overlap.py::test_fully_shard_post_optim_event_overlap";

Nanoseconds expected_total(const PostOptim& how, int world) {
  return oracles::post_optim_times(how.iterations,
                                   {.sleep_forward = how.sleep_forward.count(),
                                    .sleep_backward = how.sleep_backward.count(),
                                    .all_gather = world > 1 ? how.all_gather.count() : 0},
                                   how.event);
}

void check_gathers(const scenario::Run& run, const PostOptim& how, int world) {
  CHECK(run.count(CollectiveKind::all_gather) == (world > 1 ? static_cast<std::size_t>(how.iterations) : 0));
}

}  // namespace

RANKED_TEST_CASE("overlap/post_optim_event", clauses("OVL-5", "OVL-8", "OVL-22"), ranks(1, 2, 3, 4), each("event", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event), seed(seed_test)) {
  const PostOptim how{.event = rank.param<bool>("event")};
  const int world = rank.world().size();
  const scenario::Run run = rank.play(post_optim(how));
  rank.measure_ns("five_iterations_ns", run.total());

  check_gathers(run, how, world);
  // The seed's bounds: 4 ms to spare in every iteration, one exposed all-gather in all with the event, one in every iteration without.
  const auto exposed = world == 1 ? 0ns : how.all_gather;
  const auto bound = how.iterations * (how.sleep_forward + how.sleep_backward + 4ms) + (how.event ? 1 : how.iterations) * exposed;
  CHECK(std::chrono::nanoseconds(run.total()) <= bound);
  CHECK(std::chrono::nanoseconds(run.total()) == (world == 1 ? 375ms : how.event ? 385ms : 425ms));
  check_no_race(rank, run);
}

RANKED_TEST_CASE("overlap/post_optim_any_costs", clauses("OVL-5", "OVL-22"), ranks(1, 2, 3, 4), each("event", false, true),
                 needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event), tags("reference")) {
  std::mt19937_64 random(rank.seed());
  const auto duration = [&random] { return std::chrono::milliseconds(1 + random() % 60); };
  for (int round = 0; round < 4; ++round) {
    const PostOptim how{.sleep_forward = duration(),
                        .sleep_backward = duration(),
                        .all_gather = duration(),
                        .iterations = static_cast<int>(2 + random() % 4),
                        .event = rank.param<bool>("event")};
    const scenario::Run run = rank.play(post_optim(how));
    check_gathers(run, how, rank.world().size());
    CHECK(run.total() == expected_total(how, rank.world().size()));
    check_no_race(rank, run);
  }
}

}  // namespace shardproof::overlap
