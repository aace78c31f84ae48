// Gathering and resharding by hand: the same values, and no gather more than needed.
#include <map>

#include "harness/player/play.hpp"
#include "harness/trace/timeline.hpp"
#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

using namespace suites;

namespace {

constexpr int plain_iterations = 2;

// Iterations without calls by hand come first. They change no values. The first call by hand comes when training has
// long begun.
Scenario after_plain_iterations(Scenario scenario) {
  const std::vector<Action> plain{{ActionKind::forward}, {ActionKind::backward}, {ActionKind::zero_grad}};
  scenario.script.segments.insert(scenario.script.segments.begin(), {.iterations = plain_iterations, .body = plain});
  return scenario;
}

}  // namespace

RANKED_TEST_CASE("overlap/unshard_by_hand", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16"),
                 ranks(1, 2, 3, 4), also_with_discarded_module(), each("async", false, true),
                 each("reshard", false, true), needs(Feature::timeline, FullyShardFeature::manual_unshard)) {
  const bool several = rank.world().size() > 1;
  const Run run =
      play_accepted(rank, three_iterations({{.kind = ActionKind::unshard, .async = rank.param<bool>("async")},
                                            {.kind = ActionKind::unshard, .module = "l0"}},
                                           {}, rank.param<bool>("reshard")));
  check_three_iterations(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-16");
    // Once by hand; forward finds everything there.
    check_count(iteration, CollectiveKind::all_gather, ActionKind::unshard, several ? 2 : 0);
    check_count(iteration, CollectiveKind::all_gather, ActionKind::forward, 0);
    // Without `async`, parameters are whole when the call returns: two parameters in each of two layers.
    if (!rank.param<bool>("async"))
      CHECK(iteration.live_after(MemoryClass::parameter, ActionKind::unshard).buffers == 4);
  }
}

RANKED_TEST_CASE("overlap/waited_by_hand", clauses("OVL-4", "OVL-5", "OVL-7", "OVL-10", "OVL-15", "OVL-16"),
                 ranks(1, 2, 3, 4), also_with_discarded_module(),
                 needs(Feature::timeline, FullyShardFeature::manual_unshard)) {
  const Run run = play_accepted(rank, three_iterations({{.kind = ActionKind::unshard, .module = "l1", .async = true},
                                                        {.kind = ActionKind::wait_for_unshard}},
                                                       {}, true));
  check_three_iterations(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-16");
    check_count(iteration, CollectiveKind::all_gather, ActionKind::forward, rank.world().size() > 1 ? 1 : 0);
    // Two parameters, whole when the wait is over and not before.
    CHECK(iteration.live_after(MemoryClass::parameter, ActionKind::unshard).buffers == 0);
    CHECK(iteration.live_after(MemoryClass::parameter, ActionKind::wait_for_unshard).buffers == 2);
  }
}

RANKED_TEST_CASE("overlap/unshard_beside_compute", clauses("OVL-26"), ranks(2, 3, 4), each("async", false, true),
                 needs(Feature::timeline, Feature::module_groups, FullyShardFeature::manual_unshard)) {
  // A gather of 10 ms by hand, then 25 ms of computation that does not need it, then the forward that does.
  const bool async = rank.param<bool>("async");
  Scenario scenario = post_optim({.iterations = 1, .event = false});
  scenario.script.segments = {{.iterations = 3,
                               .body = {{.kind = ActionKind::unshard, .module = "tiny", .async = async},
                                        {.kind = ActionKind::evaluate, .module = "sleep"},
                                        {.kind = ActionKind::forward},
                                        {.kind = ActionKind::backward}}}};
  const Run run = play(rank, scenario);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const std::chrono::nanoseconds time(trace::between(run.trace(), mark(iteration.index(), ActionKind::unshard),
                                                       mark(iteration.index(), ActionKind::evaluate, true)));
    CHECK(time == (async ? 25ms : 35ms));
    check_count(iteration, CollectiveKind::all_gather, ActionKind::forward, 0);
  }
  check_sound(rank, run);
}

RANKED_TEST_CASE("overlap/streams_of_gathers", clauses("OVL-27"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("async", false, true), needs(Feature::timeline, FullyShardFeature::manual_unshard),
                 tags("reference")) {
  const bool async = rank.param<bool>("async");
  const Run run = play_accepted(
      rank, after_plain_iterations(three_iterations({{.kind = ActionKind::unshard, .async = async}}, {}, true)));
  const std::map<std::uint32_t, StreamInfo> streams = shardproof::streams(run.trace());
  std::size_t gathering = 0;
  for (const auto& [id, stream] : streams) gathering += stream.role == StreamRole::all_gather ? 1 : 0;
  CHECK(gathering == (async ? 2 : 1));
  for (const Fact& fact : run.trace().facts) {
    const auto* call = std::get_if<fact::Collective>(&fact);
    if (call == nullptr || call->kind != CollectiveKind::all_gather) continue;
    const bool on_compute = streams.at(call->stream).role == StreamRole::compute;
    CAPTURE(call->tag, call->start);
    CHECK((on_compute || streams.at(call->stream).role == StreamRole::all_gather));
    if (async) CHECK_FALSE(on_compute);
  }
}

RANKED_TEST_CASE("overlap/reshard_by_hand", clauses("OVL-4", "OVL-7", "OVL-10", "OVL-15", "OVL-16"), ranks(1, 2, 3, 4),
                 also_with_discarded_module(), needs(Feature::timeline, FullyShardFeature::manual_unshard)) {
  const Run run = play_accepted(rank, three_iterations({}, {{.kind = ActionKind::reshard, .module = "l0"}}, false));
  check_three_iterations(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-16");
    // Kept by the plan, freed by hand: one of the two is gathered again.
    check_count(iteration, CollectiveKind::all_gather, ActionKind::backward, rank.world().size() > 1 ? 1 : 0);
  }
}

RANKED_TEST_CASE("overlap/no_unshard_in_backward", clauses("OVL-6", "OVL-7", "OVL-10", "OVL-15", "OVL-18"),
                 ranks(1, 2, 3, 4), also_with_discarded_module(),
                 needs(Feature::timeline, FullyShardFeature::manual_unshard)) {
  // The first layer's input needs no gradient, so its backward never looks at its weight.
  const Run run = play_accepted(
      rank, after_plain_iterations(three_iterations(
                {{.kind = ActionKind::set_unshard_in_backward, .module = "l0", .value = false}}, {}, true)));
  check_three_iterations(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) {
    CAPTURE(iteration.index());
    const auto judged = rank.under("OVL-18");
    const std::size_t groups = iteration.index() < plain_iterations ? 2 : 1;
    check_count(iteration, CollectiveKind::all_gather, ActionKind::backward, rank.world().size() > 1 ? groups : 0);
  }
}

}  // namespace shardproof::overlap
