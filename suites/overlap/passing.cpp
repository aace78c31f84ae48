// Can communication run while computation is held back, and computation while communication is? Where streams can be
// held, as on GPUs, it is done: no stopwatch decides.
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "harness/player/play.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using player::Hold;

using namespace suites;

namespace {

using player::Hold;

// In the first iteration of the seed's stack: three layers, gathered once for forward and once for backward.
const Hold& hold(const std::string& name) {
  static const std::map<std::string, Hold> holds{
      {"forward_gather", {{WorkKind::forward, "0.linear"}, {CollectiveKind::all_gather, "1"}}},
      {"last_forward_gather", {{WorkKind::forward, "1.linear"}, {CollectiveKind::all_gather, "2"}}},
      {"backward_gather", {{WorkKind::backward, "2.linear"}, {CollectiveKind::all_gather, "1", 2}}},
      {"last_backward_gather", {{WorkKind::backward, "1.linear"}, {CollectiveKind::all_gather, "0", 2}}},
      {"reduction", {{WorkKind::backward, "1.linear"}, {CollectiveKind::reduce_scatter, "2"}}},
      {"forward", {{CollectiveKind::all_gather, "1"}, {WorkKind::forward, "0.linear"}}},
      {"backward_beside_gather", {{CollectiveKind::all_gather, "1", 2}, {WorkKind::backward, "2.linear"}}},
      {"backward_beside_reduction", {{CollectiveKind::reduce_scatter, "2"}, {WorkKind::backward, "1.linear"}}}};
  return holds.at(name);
}

trace::Piece in_iteration(trace::Piece piece, int iteration) {
  const int in_each = piece.kind == std::variant<WorkKind, CollectiveKind>(CollectiveKind::all_gather) ? 2 : 1;
  piece.occurrence += iteration * in_each;
  return piece;
}

void check_passes(Rank& rank, const SleepingStack& stack) {
  const Hold& asked = hold(rank.param<std::string>("passes"));
  std::vector<Hold> holds;
  for (const int iteration : {0, 1, 2})
    holds.push_back({in_iteration(asked.held, iteration), in_iteration(asked.passes, iteration)});
  const player::HeldRun played = play(rank, stack, holds);
  REQUIRE(played.passages.size() == holds.size());
  bool is_proven = true;
  for (std::size_t i = 0; i < holds.size(); ++i) {
    const player::Passage& passage = played.passages[i];
    CAPTURE(i, to_string(holds[i].held), to_string(holds[i].passes));
    CHECK(passage.is_free);
    CHECK(passage.has_passed.value_or(true));
    is_proven = is_proven && passage.has_passed == true;
  }
  if (played.passages.front().has_passed) rank.measure("proven_by_gate", is_proven ? 1 : 0, "");
  check_no_race(rank, played.run);
}

}  // namespace

RANKED_TEST_CASE("overlap/communication_passes_compute", clauses("OVL-30"), ranks(1, 2, 3, 4),
                 each("passes", "forward_gather", "last_forward_gather", "backward_gather", "last_backward_gather",
                      "reduction"),
                 needs(Feature::timeline), seed(training_overlap_test)) {
  check_passes(rank, seed_stack_of(rank));
}

RANKED_TEST_CASE("overlap/compute_passes_communication", clauses("OVL-30"), ranks(1, 2, 3, 4),
                 each("passes", "backward_beside_gather", "backward_beside_reduction"), needs(Feature::timeline),
                 seed(training_overlap_test)) {
  check_passes(rank, seed_stack_of(rank));
}

RANKED_TEST_CASE("overlap/compute_passes_communication", clauses("OVL-30"), ranks(1, 2, 3, 4),
                 each("passes", "forward"), needs(Feature::timeline, FullyShardFeature::prefetch_lists),
                 seed(training_overlap_test)) {
  // Asked for before the layer computes, not while it does.
  check_passes(rank, seed_stack_of(rank).prefetch(1, 1));
}

}  // namespace shardproof::overlap
