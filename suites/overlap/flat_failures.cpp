// Forwards that fail, on an engine with flat parameters: everything that follows is as if they had never run.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/trace/memory.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/flat_ways.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

struct FailingScript {
  std::vector<Action> undisturbed;  ///< the calls of an iteration without the forward that fails
  std::size_t at = 0;               ///< where among them it comes
  Action failing;
  int occurrence = 1;  ///< of the call that comes next in the iteration without it
};

// The failing forward may take another way, may have gathered the next unit ahead, or comes while other forwards wait
// for their backward.
FailingScript failing_script(const std::string& when) {
  const Action one = forward_by("one"), backward{.kind = ActionKind::backward}, evaluate{.kind = ActionKind::evaluate};
  const Action in_first_unit = failing_by("one", unit_of_ways("a"));
  if (when == "first") return {.undisturbed = trained_by({one, backward}), .failing = failing_by("three", "end")};
  if (when == "after_evaluation")
    return {.undisturbed = trained_by({evaluate, one, backward}), .at = 1, .failing = failing_by("three", "end")};
  if (when == "before_backward") return {.undisturbed = trained_by({one, backward}), .at = 1, .failing = in_first_unit};
  if (when == "between")
    return {.undisturbed = trained_by({one, forward_by("two"), backward}),
            .at = 1,
            .failing = failing_by("two", "end"),
            .occurrence = 2};
  if (when == "again") {
    return {
        .undisturbed = trained_by({one, one, backward}), .at = 1, .failing = failing_by("one", "end"), .occurrence = 2};
  }
  if (when == "other_way")
    return {
        .undisturbed = trained_by({one, one, backward}), .at = 1, .failing = failing_by("two", "end"), .occurrence = 2};
  return {.undisturbed = trained_by({one, backward}), .at = 2, .failing = in_first_unit};  // before the step
}

void without_gathers(std::vector<std::string>& issued) {
  std::erase_if(issued, [](const std::string& each) { return each.starts_with("all_gather"); });
}

void play_failing_ways(Rank& rank, bool prefetches) {
  const std::string& when = rank.param("when");
  const FailingScript script = failing_script(when);
  Scenario undisturbed = flat_ways(strategy(rank));
  flat_shard_plan(undisturbed.plan).forward_prefetch = prefetches;
  Scenario failing = undisturbed;
  undisturbed.script.segments = {{.iterations = 3, .body = script.undisturbed}};
  std::vector<Action> body = script.undisturbed;
  body.insert(body.begin() + static_cast<std::ptrdiff_t>(script.at), script.failing);
  failing.script.segments = {{.iterations = 3, .body = std::move(body)}};

  const Run run = play_accepted(rank, failing), expected = play_accepted(rank, undisturbed);
  check_training(rank, run, oracles::Arithmetic::f32, ways_tolerance, Moves::some_parameter);
  check_sound(rank, run);
  check_memory(rank, run);
  if (!prefetches) check_nothing_else_is_communicated(rank, run);
  // The engine also frees what an earlier forward or an evaluation keeps, and gathers it again.
  const bool keeps = strategy(rank) == ShardStrategy::shard_grad_op;
  const bool gathers_again = keeps && when != "first" && when != "before_step";
  const ActionKind next = script.undisturbed.at(script.at).kind;
  const std::vector<Iteration> iterations = steady_iterations(run), others = steady_iterations(expected);
  for (const Iteration& iteration : iterations) {
    const int index = iteration.index();
    CAPTURE(index);
    const std::string failed = mark(index, "failing forward", true), end = mark(index, ActionKind::zero_grad, true);
    check_nothing_is_left(rank, run, index);
    const auto judged = rank.under("OVL-19");
    CHECK(trace::at(run.trace(), MemoryClass::parameter, failed).buffers == 0);
    std::vector<std::string> done = issued_in(iteration, failed, end);
    std::vector<std::string> planned =
        issued_in(others[static_cast<std::size_t>(index)], mark(index, next, false, script.occurrence), end);
    if (gathers_again) {
      without_gathers(done);
      without_gathers(planned);
    }
    CHECK(done == planned);
  }
}

}  // namespace

RANKED_TEST_CASE("overlap/flat_failed_forward",
                 clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16", "OVL-19"), ranks(1, 2, 3),
                 on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("when", "first", "after_evaluation", "before_backward", "between", "again", "before_step"),
                 needs(Feature::timeline, Feature::failed_forward, Feature::module_groups)) {
  play_failing_ways(rank, false);
}

// A gather ahead is still under way when the forward fails.
RANKED_TEST_CASE("overlap/flat_failed_ahead",
                 clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16", "OVL-19"), ranks(2, 3),
                 on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op"),
                 each("when", "first", "before_backward", "again", "other_way", "before_step"),
                 needs(Feature::timeline, Feature::failed_forward, Feature::module_groups,
                       FlatShardFeature::forward_prefetch)) {
  play_failing_ways(rank, true);
}

}  // namespace shardproof::overlap
