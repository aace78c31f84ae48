#include "harness/trace/order.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <stdexcept>

#include "tests/trace/trace_builder.hpp"

using namespace shardproof;
using shardproof::test::ms;
using shardproof::test::TraceBuilder;
using shardproof::trace::difference;
using shardproof::trace::HappensBefore;
using shardproof::trace::structure;

namespace {

bool any(WorkKind, std::string_view) { return true; }

// One layer as an engine runs it; the engine may forget to wait for the gather.
TraceBuilder layer(bool waits = true, Nanoseconds gather_cost = 10 * ms) {
  TraceBuilder trace;
  trace.stream(1, StreamRole::all_gather, "ag").mark("iter 0 forward", 0);
  trace.span(1, WorkKind::copy_in, "0", 0, 0).gather(1, "0", 0, gather_cost).record(1, 1);
  if (waits) trace.wait(0, 1);
  trace.span(0, WorkKind::forward, "0", gather_cost, gather_cost + 25 * ms);
  return trace;
}

}  // namespace

TEST_CASE("order follows streams, events and host waits, and passes on") {
  TraceBuilder trace;
  trace
      .work(0, "a", {}, {})       // 0
      .work(1, "b", {}, {})        // 1
      .record(1, 1)                // 2
      .wait(2, 1)                  // 3
      .work(2, "c", {}, {})        // 4
      .synchronize_stream(2)       // 5
      .work(3, "d", {}, {})        // 6
      .work(0, "e", {}, {});       // 7
  const HappensBefore order(trace);
  CHECK(order.before(0, 7));
  CHECK(order.before(1, 4));
  CHECK(order.before(1, 6));
  CHECK(order.before(4, 6));
  CHECK(order.before(4, 7));
  CHECK_FALSE(order.before(0, 1));
  CHECK_FALSE(order.before(0, 6));
  CHECK_FALSE(order.before(4, 1));
  CHECK_FALSE(order.before(7, 0));
  CHECK_FALSE(order.before(0, 0));
  CHECK_THROWS_AS(order.before(2, 4), std::out_of_range);
  CHECK_THROWS_AS(order.before(0, 5), std::out_of_range);
  CHECK_THROWS_AS(order.before(0, 8), std::out_of_range);
}

TEST_CASE("a structure keeps collectives and compute steps, with stream roles and phases, and no times") {
  const trace::Structure made = structure(layer(), any);
  REQUIRE(made.steps.size() == 2);
  CHECK(to_string(made.steps[0]) ==
        "all_gather \"0\" on all_gather, 10 -> 20 f32, group [0, 1], in \"iter 0 forward\"");
  CHECK(to_string(made.steps[1]) == "forward \"0\" on compute, in \"iter 0 forward\"");
  CHECK(made.before == std::vector<bool>{false, true, false, false});
  CHECK(difference(made, structure(layer(true, 3 * ms), any)).empty());
}

TEST_CASE("collectives between two marks are in the order of the host") {
  TraceBuilder trace;
  trace.gather(1, "before", 0, 1)
      .mark("from", 0)
      .gather(2, "b", 5, 6)
      .gather(1, "a", 1, 2)
      .mark("to", 0)
      .gather(1, "after", 7, 8);
  const auto found = trace::collectives(trace, "from", "to");
  REQUIRE(found.size() == 2);
  CHECK(found[0].tag == "b");
  CHECK(found[1].tag == "a");
  CHECK(trace::collectives(trace, "from", "from").empty());
  CHECK_THROWS_AS(trace::collectives(trace, "to", "from"), std::out_of_range);
  CHECK_THROWS_AS(trace::collectives(trace, "from", "x"), std::out_of_range);
}

TEST_CASE("a structure omits steps that the filter rejects") {
  const auto only_backward = [](WorkKind kind, std::string_view) { return kind == WorkKind::backward; };
  CHECK(structure(layer(), only_backward).steps.size() == 1);
  const auto other_label = [](WorkKind, std::string_view label) { return label != "0"; };
  CHECK(structure(layer(), other_label).steps.size() == 1);
}

TEST_CASE("events that no stream waits for change nothing") {
  auto chatty = layer();
  CHECK(difference(structure(layer(), any), structure(chatty.record(0, 50).record(1, 51), any)).empty());
}

TEST_CASE("difference describes the first difference in words") {
  const trace::Structure expected = structure(layer(), any);

  CHECK(difference(expected, structure(layer(false), any)) ==
        "step 0 must come before step 1: nothing orders them\n"
        "  all_gather \"0\" on all_gather, 10 -> 20 f32, group [0, 1], in \"iter 0 forward\"\n"
        "  forward \"0\" on compute, in \"iter 0 forward\"");
  CHECK(difference(structure(layer(false), any), expected) ==
        "step 0 need not come before step 1: yet something makes it wait\n"
        "  all_gather \"0\" on all_gather, 10 -> 20 f32, group [0, 1], in \"iter 0 forward\"\n"
        "  forward \"0\" on compute, in \"iter 0 forward\"");

  auto longer = layer();
  longer.span(0, WorkKind::forward, "1", 0, 0);
  CHECK(difference(expected, structure(longer, any)) ==
        "step 2 is unexpected, the first of 1: forward \"1\" on compute, in \"iter 0 forward\"");
  CHECK(difference(structure(longer, any), expected) ==
        "step 2 is missing, 1 of 3: forward \"1\" on compute, in \"iter 0 forward\"");

  trace::Structure other = expected;
  other.steps[1].label = "7";
  CHECK(difference(expected, other) ==
        "step 1: expected forward \"0\" on compute, in \"iter 0 forward\"\n"
        "        but found forward \"7\" on compute, in \"iter 0 forward\"\n"
        "        after all_gather \"0\" on all_gather, 10 -> 20 f32, group [0, 1], in \"iter 0 forward\"");
  other.steps[0].kind = "reduce_scatter";
  other.steps[0].tag = "layers.1";
  CHECK(
      difference(expected, other) ==
      "step 0: expected all_gather \"0\" on all_gather, 10 -> 20 f32, group [0, 1], in \"iter 0 forward\"\n"
      "        but found reduce_scatter \"layers.1\" on all_gather, 10 -> 20 f32, group [0, 1], in \"iter 0 forward\"\n"
      "        and before forward \"0\" on compute, in \"iter 0 forward\"");
  // Only one side knows the groups.
  other = expected;
  other.steps[0].tag = "layers.1";
  CHECK(difference(expected, other).empty());
}
