// Is every read ordered after the write that it needs, and is memory held exactly as long as it must be?
#include <vector>

#include "harness/player/play.hpp"
#include "harness/trace/order.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

void play_without_race(Rank& rank, bool event) {
  Scenario scenario = small_mlp({.kind = OptimizerKind::adamw, .rate = 1e-2}, rank.param<bool>("reshard"), 3);
  if (event) scenario.script.segments.front().body.push_back({ActionKind::post_optim_event});
  const Run run = play(rank, scenario);
  // Several streams, or there is nothing to order.
  check_plan_is_communicated(rank, run);
  check_no_race(rank, run);
}

SleepingStack even_stack(int layers, bool reshard) {
  return sleeping_stack(layers)
      .forward(25ms)
      .backward(50ms)
      .collectives(10ms)
      .reshard_after_forward(reshard)
      .iterations(3);
}

struct GathersOfPass {
  std::vector<std::size_t> gathered, unpacked;  // indices of facts
};

// One gather and one unpacking after the other.
GathersOfPass gathers_in_forward(const Run& run, const Iteration& iteration) {
  GathersOfPass found;
  for (const Fact& fact : iteration.facts()) {
    const auto index = static_cast<std::size_t>(&fact - run.trace().facts.data());
    if (const auto* mark = std::get_if<fact::Mark>(&fact);
        mark != nullptr && mark->text == shardproof::mark(iteration.index(), ActionKind::forward, true))
      break;
    if (const auto* call = std::get_if<fact::Collective>(&fact);
        call != nullptr && call->kind == CollectiveKind::all_gather)
      found.gathered.push_back(index);
    if (const auto* work = std::get_if<fact::Work>(&fact); work != nullptr && work->kind == WorkKind::copy_out)
      found.unpacked.push_back(index);
  }
  return found;
}

// Checks how many buffers are alive at a time, and that none outlives the iteration.
void check_live_buffers(Rank& rank, const Iteration& iteration, std::uint64_t layers, bool reshard) {
  const auto peak = [&iteration](MemoryClass memory) { return iteration.peak(memory).buffers; };
  // Upper bounds prove nothing of buffers that never exist: each scope begins with a lower bound.
  {
    const auto judged = rank.under("OVL-9");
    if (rank.world().size() > 1) {
      CHECK(peak(MemoryClass::gathered) >= 1);
      CHECK(peak(MemoryClass::reduce_input) >= 1);
    }
    CHECK(peak(MemoryClass::gathered) <= 2);
    CHECK(peak(MemoryClass::reduce_input) <= 2);
  }
  const auto after = [&iteration](ActionKind call, MemoryClass memory) {
    return iteration.live_after(memory, call).buffers;
  };
  {
    const auto judged = rank.under("OVL-11");
    CHECK(peak(MemoryClass::parameter) >= (reshard ? 1 : layers));
    if (reshard) CHECK(after(ActionKind::forward, MemoryClass::parameter) == 0);
    else CHECK(after(ActionKind::forward, MemoryClass::parameter) >= layers);
  }
  const auto judged = rank.under("OVL-12");
  CHECK(peak(MemoryClass::gradient) >= 1);
  CHECK(after(ActionKind::forward, MemoryClass::gathered) == 0);
  for (const MemoryClass memory :
       {MemoryClass::parameter, MemoryClass::gathered, MemoryClass::reduce_input, MemoryClass::gradient}) {
    CAPTURE(to_string(memory));
    CHECK(after(ActionKind::backward, memory) == 0);
  }
  // The loss, and the input that the caller holds.
  CHECK(after(ActionKind::backward, MemoryClass::activation) <= 2);
}

}  // namespace

RANKED_TEST_CASE("overlap/no_race", clauses("OVL-3", "OVL-4", "OVL-5", "OVL-6", "OVL-7"), ranks(2, 3, 4),
                 each("event", false), each("reshard", false, true), needs(Feature::timeline)) {
  play_without_race(rank, false);
}

RANKED_TEST_CASE("overlap/no_race", clauses("OVL-3", "OVL-4", "OVL-5", "OVL-6", "OVL-7"), ranks(2, 3, 4),
                 each("event", true), each("reshard", false, true),
                 needs(Feature::timeline, FullyShardFeature::post_optim_event)) {
  play_without_race(rank, true);
}

RANKED_TEST_CASE("overlap/event_serves_once", clauses("OVL-3", "OVL-4", "OVL-5", "OVL-6", "OVL-7"), ranks(2, 3, 4),
                 each("reshard", false, true), needs(Feature::timeline, FullyShardFeature::post_optim_event)) {
  // One event, then steps without: what waited for it the first time must wait for the compute stream the next times.
  Scenario scenario = small_mlp({.rate = 0.25}, rank.param<bool>("reshard"), 1);
  Script::Segment later = scenario.script.segments.front();
  scenario.script.segments.front().body.push_back({ActionKind::post_optim_event});
  later.iterations = 2;
  scenario.script.segments.push_back(later);
  const Run run = play(rank, scenario);
  check_plan_is_communicated(rank, run);
  check_no_race(rank, run);
}

RANKED_TEST_CASE("overlap/unpacking_holds_up_nothing", clauses("OVL-25"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("layers", 2, 3, 6), needs(Feature::timeline)) {
  const Run run = play_accepted(rank, even_stack(rank.param<int>("layers"), true));
  check_no_race(rank, run);
  const trace::HappensBefore order(run.trace());
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto [gathered, unpacked] = gathers_in_forward(run, iteration);
    REQUIRE(gathered.size() >= 2);
    REQUIRE(unpacked.size() == gathered.size());
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      CHECK(order.before(gathered[i], unpacked[i]));
      if (i > 0) CHECK_FALSE(order.before(unpacked[i - 1], gathered[i]));
    }
  }
}

RANKED_TEST_CASE("overlap/collective_counts", clauses("OVL-24"), ranks(2, 3, 4), each("reshard", false, true),
                 needs(Feature::timeline), tags("reference")) {
  const bool reshard = rank.param<bool>("reshard");
  const Run run = play(rank, small_mlp({}, reshard, 3));
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    // Two groups.
    check_count(iteration, CollectiveKind::all_gather, reshard ? 4 : 2);
    check_count(iteration, CollectiveKind::reduce_scatter, 2);
  }
  check_nothing_else_is_communicated(rank, run);
}

RANKED_TEST_CASE("overlap/live_buffers", clauses("OVL-9", "OVL-11", "OVL-12", "OVL-13"), ranks(1, 2, 3, 4),
                 each("layers", 1, 3, 6), each("reshard", false, true), needs(Feature::timeline)) {
  const int layers = rank.param<int>("layers");
  const bool reshard = rank.param<bool>("reshard");
  const Run run = play(rank, even_stack(layers, reshard));
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    check_live_buffers(rank, iteration, static_cast<std::uint64_t>(layers), reshard);
  }
  check_freed_memory(rank, run);
}

}  // namespace shardproof::overlap
