// The view of an iteration, on traces written by hand.
#include "harness/player/iteration.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <stdexcept>

#include "harness/scenario/builder.hpp"
#include "tests/trace/trace_builder.hpp"

using namespace shardproof;
using test::ms;
using test::TraceBuilder;

namespace {

Script script_of(int iterations) {
  const Scenario scenario = sleeping_stack(1).iterations(iterations);
  return scenario.script;
}

// Two iterations: the second gathers once more, takes longer, and has two more buffers at a time.
TraceBuilder two_iterations() {
  TraceBuilder trace;
  trace.allocate(0, 1, 100, "kept").mark("iter 0 forward", 0).gather(1, "0", 0, 1 * ms);
  trace.span(0, WorkKind::forward, "0", 1 * ms, 3 * ms)
      .allocate(0, 2, 10, "a")
      .mark("iter 0 forward end", 3 * ms)
      .release(0, 2);
  trace.mark("iter 0 backward", 3 * ms)
      .span(0, WorkKind::backward, "0", 3 * ms, 5 * ms)
      .mark("iter 0 backward end", 5 * ms);
  trace.mark("iter 1 forward", 5 * ms).gather(1, "0", 5 * ms, 6 * ms).allocate(0, 3, 10, "b").allocate(0, 4, 10, "c");
  trace.release(0, 3)
      .release(0, 4)
      .span(0, WorkKind::forward, "0", 9 * ms, 11 * ms)
      .mark("iter 1 forward end", 11 * ms);
  trace.mark("iter 1 backward", 11 * ms).gather(1, "again", 11 * ms, 12 * ms);
  trace.span(0, WorkKind::backward, "0", 12 * ms, 14 * ms).mark("iter 1 backward end", 14 * ms);
  return trace;
}

}  // namespace

TEST_CASE("each iteration has its own times, collectives and memory") {
  const TraceBuilder built = two_iterations();
  const Trace& trace = built;
  const std::vector<Iteration> all = iterations(trace, script_of(2));
  REQUIRE(all.size() == 2);
  CHECK(all[0].index() == 0);
  CHECK(all[0].time() == 5 * ms);
  CHECK(all[0].forward() == 3 * ms);
  CHECK(all[0].forward_backward() == 5 * ms);
  CHECK(all[0].exposed() == 1 * ms);
  CHECK(all[1].index() == 1);
  CHECK(all[1].time() == 9 * ms);
  CHECK(all[1].forward() == 6 * ms);
  CHECK(all[1].exposed() == 5 * ms);

  CHECK(all[0].count(CollectiveKind::all_gather) == 1);
  CHECK(all[1].count(CollectiveKind::all_gather) == 2);
  CHECK(all[1].count(CollectiveKind::reduce_scatter) == 0);
  CHECK(all[0].count(CollectiveKind::all_gather, ActionKind::backward) == 0);
  REQUIRE(all[1].collectives(ActionKind::backward).size() == 1);
  CHECK(all[1].collectives(ActionKind::backward).front().tag == "again");

  // Memory that is alive when an iteration begins counts in that iteration.
  CHECK(all[0].peak(MemoryClass::gathered).buffers == 2);
  CHECK(all[1].peak(MemoryClass::gathered).buffers == 3);
  CHECK(all[0].live_before(MemoryClass::gathered, ActionKind::forward).buffers == 1);
  CHECK(all[0].live_after(MemoryClass::gathered, ActionKind::forward).buffers == 2);
  CHECK(all[1].live_after(MemoryClass::gathered, ActionKind::forward).buffers == 1);
}

TEST_CASE("an iteration begins and ends with marks of its calls, and marks of others are not its own") {
  TraceBuilder trace;
  trace.mark("note", 0)
      .mark("iter 0 forward", 0)
      .mark("note", 1 * ms)
      .mark("iter 0 forward end", 2 * ms)
      .mark("iteration", 3 * ms);
  trace.mark("iter 10 forward", 3 * ms).mark("iter x", 4 * ms).mark("iter 1", 4 * ms);
  const std::vector<Iteration> all = iterations(trace, script_of(2));
  CHECK(all[0].facts().size() == 3);
  CHECK(all[0].time() == 2 * ms);
  CHECK(all[1].facts().empty());
}

TEST_CASE("a question about what an iteration does not have names the missing mark") {
  TraceBuilder trace;
  trace.mark("iter 0 forward", 0).mark("iter 0 forward end", 0);
  const std::vector<Iteration> all = iterations(trace, script_of(2));
  using Catch::Matchers::Message;
  CHECK_THROWS_MATCHES(all[0].forward_backward(), std::out_of_range,
                       Message("no mark \"iter 0 backward end\" in the trace of rank 0"));
  CHECK_THROWS_MATCHES(all[0].count(CollectiveKind::all_gather, ActionKind::backward), std::out_of_range,
                       Message("no mark \"iter 0 backward\" in the trace of rank 0"));
  CHECK_THROWS_MATCHES(all[1].time(), std::out_of_range, Message("no mark of iteration 1 in the trace of rank 0"));
  CHECK_THROWS_MATCHES(all[1].collectives(), std::out_of_range,
                       Message("no mark of iteration 1 in the trace of rank 0"));
}
