// Scripts beyond forward, backward and step, on an engine with flat parameters: its units run in other orders, more
// often, or not at all.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "harness/trace/memory.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/flat_shard.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/flat_ways.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

const Action backward_call{.kind = ActionKind::backward}, step_call{.kind = ActionKind::step},
    capture_call{.kind = ActionKind::capture}, zero_gradients{.kind = ActionKind::zero_grad, .to_zero = true};

Scenario with_iterations(Scenario scenario, int iterations, std::vector<Action> body) {
  scenario.script.segments.push_back({.iterations = iterations, .body = std::move(body)});
  return scenario;
}

// Values, order, races, counts and memory after each call.
void check_script(Rank& rank, const Run& run, const Tolerance& tolerance = ways_tolerance) {
  check_training(rank, run, oracles::Arithmetic::f32, tolerance, Moves::some_parameter);
  check_sound(rank, run);
  check_memory(rank, run);
  if (may_gather_in_vain(run.scenario())) check_plan_is_communicated(rank, run);
  else check_nothing_else_is_communicated(rank, run);
}

Scenario used_twice(ShardStrategy strategy) {
  Scenario scenario = flat_ways(strategy);
  scenario.model.root.children = {
      linear("a", 4, 4), linear("b", 4, 4), {.name = "back", .kind = ModuleKind::use, .target = "a"}};
  flat_shard_plan(scenario.plan).wrap = {"a", "b", ""};
  return with_iterations(std::move(scenario), 3, trained_by({{ActionKind::forward}, backward_call}));
}

// `first` is issued, and then `second`.
void check_issued_in_order(const Rank& rank, const std::vector<std::string>& issued, const std::string& first,
                           const std::string& second) {
  CAPTURE(first, second);
  const auto judged = rank.under("OVL-38");
  const auto earlier = std::ranges::find(issued, first), later = std::ranges::find(issued, second);
  REQUIRE(earlier != issued.end());
  REQUIRE(later != issued.end());
  CHECK(earlier < later);
}

}  // namespace

// A step makes whole parameters stale: the root's parameters, and with shard_grad_op the parameters of all units.
RANKED_TEST_CASE("overlap/flat_old_weights", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16", "OVL-17"),
                 ranks(1, 2, 3, 4), on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op"),
                 each("between", "evaluation", "unsynced"), needs(Feature::timeline, Feature::gradient_accumulation)) {
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  scenario.plan.engine = {};
  flat_shard_plan(scenario.plan).wrap = {"l0", ""};
  flat_shard_plan(scenario.plan).strategy = strategy(rank);
  std::vector<Action> body{{ActionKind::forward}, backward_call};
  if (rank.param("between") == "evaluation") {
    body.push_back({.kind = ActionKind::evaluate});
  } else {
    body.insert(body.end(), {synced(false), {ActionKind::forward}, backward_call, synced(true)});
  }
  scenario.script.segments = {{.iterations = 3, .body = trained_by(std::move(body))}};
  const Run run = play_accepted(rank, scenario);
  check_script(rank, run, exact_unless_mean_rounds(rank));
}

RANKED_TEST_CASE("overlap/flat_several_forwards",
                 clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-16", "OVL-17"), ranks(1, 2, 3),
                 on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("script", "other_way", "second_only", "twice", "two_backwards", "zeroed", "missed_micro_batch"),
                 needs(Feature::timeline, Feature::gradient_accumulation, Feature::module_groups)) {
  const std::string& script = rank.param("script");
  const Action one = forward_by("one"), two = forward_by("two"), three = forward_by("three");
  std::vector<Action> body;
  if (script == "other_way") body = trained_by({one, two, backward_call});
  if (script == "second_only") body = trained_by({three, one, backward_call});
  if (script == "twice") body = trained_by({one, one, backward_call});
  if (script == "two_backwards") body = trained_by({one, backward_call, two, backward_call});
  if (script == "zeroed")
    body = {one, backward_call, step_call, capture_call, zero_gradients, two, backward_call, step_call, capture_call};
  // The gradient of `a` waits for a reduction. The synced micro-batch does not run `a`, and the step follows.
  if (script == "missed_micro_batch")
    body = trained_by({synced(false), one, backward_call, synced(true), three, backward_call});
  const Run run = play_accepted(rank, with_iterations(flat_ways(strategy(rank)), 3, std::move(body)));
  check_script(rank, run);
}

// The unit `a` runs twice in each forward, before and after `b`.
RANKED_TEST_CASE("overlap/flat_used_twice", clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-16", "OVL-17"),
                 ranks(1, 2, 3, 4), on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op"),
                 each("forward_prefetch", false, true), needs(Feature::timeline, Feature::module_groups),
                 needs_if("forward_prefetch", true, FlatShardFeature::forward_prefetch)) {
  Scenario scenario = used_twice(strategy(rank));
  flat_shard_plan(scenario.plan).forward_prefetch = rank.param<bool>("forward_prefetch");
  const Run run = play_accepted(rank, scenario);
  check_script(rank, run);
}

// A backward reaches `a` twice, and gathers it once.
RANKED_TEST_CASE("overlap/limit_waits_for_gathers", clauses("OVL-33"), ranks(2, 3), on_engines("flat_shard"),
                 needs(Feature::timeline, Feature::module_groups, FlatShardFeature::gather_limit,
                       FlatShardFeature::prefetch_after)) {
  Scenario scenario = used_twice(ShardStrategy::full_shard);
  flat_shard_plan(scenario.plan).backward_prefetch = FlatPrefetch::none;
  const Run run = play_accepted(rank, scenario);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    std::size_t waits = 0;
    bool has_waited = false;  // and nothing has been issued since
    for (const Fact& fact : iteration.facts()) {
      if (std::holds_alternative<fact::EventSynchronized>(fact) ||
          std::holds_alternative<fact::StreamSynchronized>(fact)) {
        has_waited = true;
        ++waits;
      }
      const auto* const call = std::get_if<fact::Collective>(&fact);
      const auto* const work = std::get_if<fact::Work>(&fact);
      if (call == nullptr && work == nullptr) continue;
      if (std::exchange(has_waited, false)) {
        INFO("issued after a wait of the host: " << (call != nullptr ? call->tag : work->label));
        CHECK((call != nullptr && call->kind == CollectiveKind::all_gather));
      }
    }
    CHECK(waits > 0);
  }
}

// Iterations take two ways by turns. Each is issued as in a script that takes its way alone.
RANKED_TEST_CASE("overlap/flat_ways_in_turn", clauses("OVL-10", "OVL-15", "OVL-16", "OVL-38"), ranks(1, 2, 3),
                 on_engines("flat_shard"), each("other", "two", "three", "round"),
                 needs(Feature::timeline, Feature::module_groups)) {
  const std::string& other = rank.param("other");
  const auto body = [](const std::string& way) { return trained_by({forward_by(way), backward_call}); };
  Scenario in_turn = flat_ways(ShardStrategy::full_shard);
  const std::vector<std::string> ways{other, other, "one", other, "one"};
  for (const std::string& way : ways) in_turn.script.segments.push_back({.body = body(way)});
  const Run run = play_accepted(rank, in_turn);
  check_script(rank, run);
  const Run first_alone = play_accepted(rank, with_iterations(flat_ways(ShardStrategy::full_shard), 1, body(other)));
  const Run second_alone = play_accepted(rank, with_iterations(flat_ways(ShardStrategy::full_shard), 1, body("one")));
  const std::vector<std::string> first = issued_in(first_alone.iterations().front()),
                                 second = issued_in(second_alone.iterations().front());
  const auto judged = rank.under("OVL-38");
  CHECK(first != second);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    CHECK(issued_in(iteration) == (ways.at(static_cast<std::size_t>(iteration.index())) == other ? first : second));
  }
}

// Forward prefetch has the order of the first training iteration. An evaluation before it, a second forward in it, and
// a later way do not change the order.
RANKED_TEST_CASE("overlap/flat_forward_prefetch", clauses("OVL-10", "OVL-15", "OVL-16", "OVL-38"), ranks(2, 3),
                 on_engines("flat_shard"), each("first", "forward", "evaluation", "two_forwards"),
                 each("later", "none", "two"),
                 needs(Feature::timeline, Feature::module_groups, FlatShardFeature::forward_prefetch),
                 needs_if("first", "two_forwards", Feature::gradient_accumulation)) {
  Scenario scenario = flat_ways(ShardStrategy::full_shard);
  flat_shard_plan(scenario.plan).forward_prefetch = true;
  const auto train = [&](const std::string& way, int iterations) {
    scenario.script.segments.push_back(
        {.iterations = iterations, .body = trained_by({forward_by(way), backward_call})});
  };
  const bool evaluates_first = rank.param("first") == "evaluation";
  if (evaluates_first) {
    Action evaluation = forward_by("two");
    evaluation.kind = ActionKind::evaluate;
    scenario.script.segments.push_back({.body = {evaluation}});
  }
  if (rank.param("first") == "two_forwards")
    scenario.script.segments.push_back({.body = trained_by({forward_by("one"), forward_by("one"), backward_call})});
  train("one", 2);
  if (rank.param("later") == "two") train("two", 1);
  train("one", 2);
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, ways_tolerance, Moves::some_parameter);
  check_sound(rank, run);
  // Each unit that is gathered also runs. So every gather is used.
  check_nothing_else_is_communicated(rank, run);
  const int first = evaluates_first ? 1 : 0;
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const std::vector<std::string> issued = issued_in(iteration);
    const bool takes_one = std::ranges::find(issued, "forward " + unit_of_ways("a")) != issued.end();
    if (iteration.index() <= first || !takes_one) continue;
    check_issued_in_order(rank, issued, "all_gather " + unit_of_ways("b"), "forward " + unit_of_ways("a"));
  }
}

// Two roots. In some iterations the second root gets no gradient. Then its unit does not change, and the next iteration
// trains it.
RANKED_TEST_CASE("overlap/flat_second_root", clauses("OVL-4", "OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-16", "OVL-17"),
                 ranks(1, 2, 3, 4), on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op"),
                 needs(Feature::timeline, Feature::module_groups, FlatShardFeature::prefetch_after)) {
  Scenario scenario = flat_ways(strategy(rank));
  flat_shard_plan(scenario.plan).backward_prefetch = FlatPrefetch::none;
  const Module past{.name = "past",
                    .kind = ModuleKind::discard,
                    .children = {{.name = "b", .kind = ModuleKind::use, .target = "way.through"}}};
  scenario.model.root.children = {
      linear("a", 4, 4), {.name = "way", .kind = ModuleKind::choice, .children = {linear("through", 4, 4), past}}};
  flat_shard_plan(scenario.plan).wrap = {"a", "way.through"};
  for (const char* way : {"past", "through", "past", "past", "through"}) {
    const Action forward{.kind = ActionKind::forward, .paths = {{"way", way}}};
    scenario.script.segments.push_back({.body = trained_by({forward, backward_call})});
  }
  const Run run = play_accepted(rank, scenario);
  check_training(rank, run, oracles::Arithmetic::f32, ways_tolerance, Moves::some_parameter);
  check_sound(rank, run);
  check_memory(rank, run);
  check_nothing_else_is_communicated(rank, run);
}

// A frozen unit is gathered for the gradient of its input, and is freed when the backward has passed it.
RANKED_TEST_CASE("overlap/flat_frozen_unit", clauses("OVL-10", "OVL-15", "OVL-16", "OVL-17", "OVL-37", "OVL-38"),
                 ranks(2, 3), on_engines("flat_shard"), each("frozen", "first", "second", "third"),
                 each("backward_prefetch", "before", "after", "none"), needs(Feature::timeline, Feature::module_groups),
                 needs_if("backward_prefetch", "after", FlatShardFeature::prefetch_after),
                 needs_if("backward_prefetch", "none", FlatShardFeature::prefetch_after)) {
  Scenario scenario = flat_ways(ShardStrategy::full_shard);
  scenario.model.root.children = {linear("first", 4, 4), relu("relu"), linear("second", 4, 4), linear("third", 4, 4)};
  const std::string& frozen = rank.param("frozen");
  std::ranges::find(scenario.model.root.children, frozen, &Module::name)->frozen = true;
  flat_shard_plan(scenario.plan).wrap = {"first", "second", "third", ""};
  const FlatPrefetch prefetch = backward_prefetch(rank);
  flat_shard_plan(scenario.plan).backward_prefetch = prefetch;
  const Run run =
      play_accepted(rank, with_iterations(std::move(scenario), 3, trained_by({{ActionKind::forward}, backward_call})));
  check_training(rank, run, oracles::Arithmetic::f32, ways_tolerance, Moves::some_parameter);
  check_sound(rank, run);
  check_nothing_else_is_communicated(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    // The third unit reads what the second one gives: an engine may gather the second one first, and then free the
    // third.
    const std::uint64_t most = (prefetch == FlatPrefetch::before ? 2 : 1) + (frozen == "third" ? 1 : 0);
    {
      const auto judged = rank.under("OVL-37");
      CHECK(iteration.peak(MemoryClass::parameter).buffers >= 1);
      CHECK(iteration.peak(MemoryClass::parameter).buffers <= most);
    }
    // The first unit is frozen, and its input needs no gradient, so no backward reaches it.
    if (frozen == "first") continue;
    const std::string end = mark(iteration.index(), ActionKind::backward, true);
    const std::vector<std::string> issued = issued_in(iteration, mark(iteration.index(), ActionKind::backward), end);
    const std::string gather = "all_gather first", own = "backward second", next = "backward relu";
    check_issued_in_order(rank, issued, prefetch == FlatPrefetch::before ? gather : own,
                          prefetch == FlatPrefetch::before ? own : gather);
    check_issued_in_order(rank, issued, prefetch == FlatPrefetch::none ? next : gather,
                          prefetch == FlatPrefetch::none ? gather : next);
  }
}

// One unit has a frozen layer and one that trains. Only the latter gets a gradient.
RANKED_TEST_CASE("overlap/flat_frozen_layer", clauses("OVL-10", "OVL-15", "OVL-16", "OVL-17"), ranks(1, 2, 3),
                 on_engines("flat_shard"), each("strategy", "full_shard", "shard_grad_op", "no_shard"),
                 each("frozen", "l0", "l1"),
                 needs(Feature::timeline, Feature::module_groups, FlatShardFeature::orig_params)) {
  Scenario scenario = small_mlp({.rate = 0.25}, true, 3);
  std::ranges::find(scenario.model.root.children, rank.param("frozen"), &Module::name)->frozen = true;
  scenario.plan.engine = {};
  flat_shard_plan(scenario.plan).wrap = {""};
  flat_shard_plan(scenario.plan).use_orig_params = true;
  flat_shard_plan(scenario.plan).strategy = strategy(rank);
  const Run run = play_accepted(rank, scenario);
  check_script(rank, run, exact_unless_mean_rounds(rank));
}

// A script may end in the middle of an iteration. The engine frees its memory all the same, without a race.
RANKED_TEST_CASE("overlap/flat_unfinished_scripts", clauses("OVL-7", "OVL-13"), ranks(1, 2), on_engines("flat_shard"),
                 each("strategy", "full_shard", "shard_grad_op"),
                 each("ends_with", "forward", "backward", "unsynced", "zero_grad"),
                 needs(Feature::timeline, Feature::gradient_accumulation)) {
  const std::string& end = rank.param("ends_with");
  Scenario scenario = small_mlp({.rate = 0.25}, true, 2);
  scenario.plan.engine = {};
  flat_shard_plan(scenario.plan).wrap = {"l0", ""};
  flat_shard_plan(scenario.plan).strategy = strategy(rank);
  std::vector<Action>& body = scenario.script.segments.emplace_back().body;
  if (end == "unsynced" || end == "zero_grad") body = {synced(false)};
  body.push_back({ActionKind::forward});
  if (end != "forward") body.push_back(backward_call);
  if (end == "zero_grad") body.push_back({.kind = ActionKind::zero_grad});
  const Run run = play_accepted(rank, scenario);
  check_no_race(rank, run);
  check_freed_memory(rank, run);
  if (rank.world().size() > 1) CHECK(steady_iterations(run).back().count(CollectiveKind::all_gather) > 0);
}

}  // namespace shardproof::overlap
