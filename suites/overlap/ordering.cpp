// Is every read ordered after the write that it needs, and is memory held exactly as long as it must be?
#include <vector>

#include "harness/trace/memory.hpp"
#include "harness/trace/order.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

void play_without_race(Rank& rank, bool event) {
  scenario::Scenario scenario = small_mlp({.kind = scenario::OptimizerKind::adamw, .rate = 1e-2}, rank.param<bool>("reshard"), 3);
  if (event) scenario.script.segments.front().body.push_back({scenario::ActionKind::post_optim_event});
  const scenario::Run run = rank.play(scenario);
  // Several streams, or there is nothing to order.
  check_plan_is_communicated(rank, run);
  check_no_race(rank, run);
}

}  // namespace

RANKED_TEST_CASE("overlap/no_race", clauses("OVL-3", "OVL-4", "OVL-5", "OVL-6", "OVL-7"), ranks(2, 3, 4), each("event", false),
                 each("reshard", false, true), needs(Feature::timeline, Feature::fully_shard)) {
  play_without_race(rank, false);
}

RANKED_TEST_CASE("overlap/no_race", clauses("OVL-3", "OVL-4", "OVL-5", "OVL-6", "OVL-7"), ranks(2, 3, 4), each("event", true),
                 each("reshard", false, true), needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event)) {
  play_without_race(rank, true);
}

RANKED_TEST_CASE("overlap/event_serves_once", clauses("OVL-3", "OVL-4", "OVL-5", "OVL-6", "OVL-7"), ranks(2, 3, 4),
                 each("reshard", false, true), needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event)) {
  // One event, then steps without: what waited for it the first time must wait for the compute stream the next.
  scenario::Scenario scenario = small_mlp({.rate = 0.25}, rank.param<bool>("reshard"), 1);
  scenario::Script::Segment later = scenario.script.segments.front();
  scenario.script.segments.front().body.push_back({scenario::ActionKind::post_optim_event});
  later.iterations = 2;
  scenario.script.segments.push_back(later);
  const scenario::Run run = rank.play(scenario);
  check_plan_is_communicated(rank, run);
  check_no_race(rank, run);
}

RANKED_TEST_CASE("overlap/unpacking_holds_up_nothing", clauses("OVL-25"), ranks(2, 3, 4), each("layers", 2, 3, 6),
                 needs(Feature::timeline, Feature::fully_shard)) {
  const scenario::Run run = rank.play(
      scenario::sleeping_stack(rank.param<int>("layers")).forward(25ms).backward(50ms).collectives(10ms).reshard_after_forward(true));
  const trace::HappensBefore order(run.trace());
  // In forward: one gather and one unpacking after the other.
  std::vector<std::size_t> gathers, unpackings;
  for (std::size_t i = 0; i < run.trace().facts.size(); ++i) {
    const Fact& fact = run.trace().facts[i];
    if (const auto* mark = std::get_if<fact::Mark>(&fact);
        mark != nullptr && mark->text == scenario::mark(0, scenario::ActionKind::forward, true))
      break;
    if (const auto* call = std::get_if<fact::Collective>(&fact); call != nullptr && call->kind == CollectiveKind::all_gather)
      gathers.push_back(i);
    if (const auto* work = std::get_if<fact::Work>(&fact); work != nullptr && work->kind == WorkKind::copy_out) unpackings.push_back(i);
  }
  REQUIRE(gathers.size() >= 2);
  REQUIRE(unpackings.size() == gathers.size());
  for (std::size_t i = 0; i < gathers.size(); ++i) {
    CHECK(order.before(gathers[i], unpackings[i]));
    if (i > 0) CHECK_FALSE(order.before(unpackings[i - 1], gathers[i]));
  }
}

RANKED_TEST_CASE("overlap/collective_counts", clauses("OVL-24"), ranks(2, 3, 4), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard), tags("reference")) {
  const bool reshard = rank.param<bool>("reshard");
  const scenario::Run run = rank.play(small_mlp({}, reshard, 3));
  // Two groups, three iterations.
  CHECK(run.count(CollectiveKind::all_gather) == (reshard ? 12 : 6));
  CHECK(run.count(CollectiveKind::reduce_scatter) == 6);
  check_nothing_else_is_communicated(rank, run);
}

RANKED_TEST_CASE("overlap/live_buffers", clauses("OVL-9", "OVL-11", "OVL-12", "OVL-13"), ranks(1, 2, 3, 4), each("layers", 1, 3, 6),
                 each("reshard", false, true), needs(Feature::timeline, Feature::fully_shard)) {
  const int layers = rank.param<int>("layers");
  const bool reshard = rank.param<bool>("reshard");
  const auto whole = static_cast<std::uint64_t>(layers);
  const scenario::Run run =
      rank.play(scenario::sleeping_stack(layers).forward(25ms).backward(50ms).collectives(10ms).reshard_after_forward(reshard));
  const auto live = [&run](MemoryClass memory, scenario::ActionKind phase) {
    return trace::at(run.trace(), memory, scenario::mark(0, phase, true)).buffers;
  };

  // What is never there is never there too long.
  CHECK(run.peak(MemoryClass::parameter).buffers >= (reshard ? 1 : whole));
  CHECK(run.peak(MemoryClass::gradient).buffers >= 1);
  if (rank.world().size() > 1) {
    CHECK(run.peak(MemoryClass::gathered).buffers >= 1);
    CHECK(run.peak(MemoryClass::reduce_input).buffers >= 1);
  }

  CHECK(run.peak(MemoryClass::gathered).buffers <= 2);
  CHECK(run.peak(MemoryClass::reduce_input).buffers <= 2);
  if (reshard) {
    CHECK(live(MemoryClass::parameter, scenario::ActionKind::forward) == 0);
  } else {
    CHECK(live(MemoryClass::parameter, scenario::ActionKind::forward) >= whole);
  }
  CHECK(live(MemoryClass::gathered, scenario::ActionKind::forward) == 0);
  for (const MemoryClass memory : {MemoryClass::parameter, MemoryClass::gathered, MemoryClass::reduce_input, MemoryClass::gradient}) {
    CAPTURE(to_string(memory));
    CHECK(live(memory, scenario::ActionKind::backward) == 0);
  }
  // The loss, and the input that the caller holds.
  CHECK(live(MemoryClass::activation, scenario::ActionKind::backward) <= 2);
  CHECK(run.left_alive() == 0);
}

}  // namespace shardproof::overlap
