// Is every read ordered after the write that it needs, and is memory held exactly as long as it must be?
#include "harness/trace/memory.hpp"
#include "suites/overlap/scenarios.hpp"

namespace shardproof::overlap {

RANKED_TEST_CASE("overlap/no_race", clauses("OVL-4", "OVL-5", "OVL-6", "OVL-7"), ranks(2, 3, 4), each("event", false, true),
                 each("reshard", false, true), needs(Feature::timeline, Feature::fully_shard, Feature::post_optim_event)) {
  scenario::Scenario scenario = small_mlp({.kind = scenario::OptimizerKind::adamw, .rate = 1e-2}, rank.param<bool>("reshard"), 3);
  if (rank.param<bool>("event")) scenario.script.segments.front().body.push_back({scenario::ActionKind::post_optim_event});
  const scenario::Run run = rank.play(scenario);
  // Several streams, or there is nothing to order.
  CHECK(run.count(CollectiveKind::all_gather) == (rank.param<bool>("reshard") ? 12 : 6));
  CHECK(run.count(CollectiveKind::reduce_scatter) == 6);
  check_no_race(rank, run);
}

RANKED_TEST_CASE("overlap/live_buffers", clauses("OVL-9"), ranks(1, 2, 3, 4), each("layers", 1, 3, 6), each("reshard", false, true),
                 needs(Feature::timeline, Feature::fully_shard)) {
  const int layers = rank.param<int>("layers");
  const bool reshard = rank.param<bool>("reshard");
  const auto whole = static_cast<std::uint64_t>(layers);
  const scenario::Run run =
      rank.play(scenario::sleeping_stack(layers).forward(25ms).backward(50ms).collectives(10ms).reshard_after_forward(reshard));

  const std::string after_forward = scenario::mark(0, scenario::ActionKind::forward, true);
  const std::string after_backward = scenario::mark(0, scenario::ActionKind::backward, true);
  CHECK(run.peak(MemoryClass::gathered).buffers <= 2);
  CHECK(run.peak(MemoryClass::gathered).buffers >= (rank.world().size() > 1 ? 1 : 0));
  CHECK(run.peak(MemoryClass::parameter).buffers >= (reshard ? 1 : whole));
  CHECK(trace::at(run.trace(), MemoryClass::parameter, after_forward).buffers == (reshard ? 0 : whole));
  CHECK(trace::at(run.trace(), MemoryClass::gathered, after_forward).buffers == 0);
  CHECK(trace::at(run.trace(), MemoryClass::parameter, after_backward).buffers == 0);
  CHECK(trace::at(run.trace(), MemoryClass::gathered, after_backward).buffers == 0);
  CHECK(trace::at(run.trace(), MemoryClass::reduce_input, after_backward).buffers == 0);
  CHECK(trace::at(run.trace(), MemoryClass::gradient, after_backward).buffers == 0);
  CHECK(run.left_alive() == 0);
}

}  // namespace shardproof::overlap
