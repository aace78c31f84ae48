#include "harness/trace/timeline.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <stdexcept>

#include "tests/trace/trace_builder.hpp"

using namespace shardproof;
using shardproof::test::ms;
using shardproof::test::TraceBuilder;

namespace {

// The worked example of docs/simulated-time.md: three layers of 25 ms, gathers of 10 ms.
TraceBuilder forward_of_three() {
  TraceBuilder trace;
  trace.stream(1, StreamRole::all_gather, "all_gather").mark("begin", 0);
  trace.gather(1, "0", 0, 10 * ms).record(1, 1).wait(0, 1).span(0, WorkKind::copy_out, "0", 10 * ms, 10 * ms);
  trace.span(0, WorkKind::forward, "0", 10 * ms, 35 * ms);
  trace.gather(1, "1", 10 * ms, 20 * ms).record(1, 2).wait(0, 2).span(0, WorkKind::forward, "1", 35 * ms, 60 * ms);
  trace.gather(1, "2", 20 * ms, 30 * ms).record(1, 3).wait(0, 3).span(0, WorkKind::forward, "2", 60 * ms, 85 * ms);
  trace.mark("end", 85 * ms);
  return trace;
}

std::vector<std::string> labels(const std::vector<trace::CriticalStep>& path) {
  std::vector<std::string> found;
  for (const auto& step : path) found.push_back(step.label);
  return found;
}

}  // namespace

TEST_CASE("phases, busy and exposed time of a forward") {
  const auto trace = forward_of_three();
  CHECK(trace::between(trace, "begin", "end") == 85 * ms);
  CHECK(trace::total(trace) == 85 * ms);
  CHECK(trace::compute_busy(trace, "begin", "end") == 75 * ms);
  CHECK(trace::exposed(trace, "begin", "end") == 10 * ms);
}

TEST_CASE("busy time is a union of work on the compute stream, cut to the phase") {
  TraceBuilder trace;
  trace.mark("a", 10)
      .span(0, WorkKind::forward, "before and in", 5, 15)
      .span(0, WorkKind::forward, "overlapping", 12, 20);
  trace.span(1, WorkKind::forward, "elsewhere", 20, 30)
      .gather(0, "no work", 30, 35)
      .span(0, WorkKind::loss, "in and after", 38, 50);
  trace.mark("b", 40);
  CHECK(trace::compute_busy(trace, "a", "b") == 12);
  CHECK(trace::exposed(trace, "a", "b") == 18);
}

TEST_CASE("a serial run exposes all its communication") {
  TraceBuilder trace;
  trace.mark("a", 0).gather(0, "0", 0, 10).span(0, WorkKind::forward, "0", 10, 35).mark("b", 35);
  CHECK(trace::exposed(trace, "a", "b") == 10);
}

TEST_CASE("marks that are not there, or there twice, are named") {
  auto trace = forward_of_three();
  CHECK_THROWS_MATCHES(trace::between(trace, "begin", "nowhere"), std::out_of_range,
                       Catch::Matchers::Message("no mark \"nowhere\" in the trace of rank 0"));
  trace.mark("begin", 85 * ms);
  CHECK_THROWS_MATCHES(trace::exposed(trace, "begin", "end"), std::out_of_range,
                       Catch::Matchers::Message("mark \"begin\" is set twice in the trace of rank 0"));
}

TEST_CASE("the total is the latest end of all streams, and zero without work") {
  CHECK(trace::total(TraceBuilder()) == 0);
  CHECK(trace::total(TraceBuilder().gather(1, "late", 5, 90).span(0, WorkKind::forward, "0", 0, 25)) == 90);
}

TEST_CASE("the critical path leads from what began at once to the latest end") {
  CHECK(labels(trace::critical_path(forward_of_three())) ==
        std::vector<std::string>{"all_gather 0", "forward 0", "forward 1", "forward 2"});
  CHECK(trace::critical_path(TraceBuilder()).empty());
}

TEST_CASE("the critical path passes through the group's resource where streams do not hold a collective back") {
  TraceBuilder trace;
  trace.gather(1, "first", 0, 10)
      .gather(2, "second", 10, 20)
      .record(2, 1)
      .wait(0, 1)
      .span(0, WorkKind::forward, "0", 20, 45);
  CHECK(labels(trace::critical_path(trace)) ==
        std::vector<std::string>{"all_gather first", "all_gather second", "forward 0"});
  TraceBuilder other_group;
  other_group.gather(1, "first", 0, 10, {}, {}, {0, 1}).gather(2, "second", 10, 20, {}, {}, {0, 2});
  CHECK(labels(trace::critical_path(other_group)) == std::vector<std::string>{"all_gather second"});
}

TEST_CASE("what ends in time but is not waited for is not on the critical path") {
  TraceBuilder trace;
  trace.span(1, WorkKind::other, "unrelated", 0, 10).gather(2, "late peer", 5, 10).record(2, 1).wait(0, 1);
  trace.span(0, WorkKind::forward, "0", 10, 35);
  const auto path = trace::critical_path(trace);
  CHECK(labels(path) == std::vector<std::string>{"all_gather late peer", "forward 0"});
  CHECK(path.front().start == 5);
  CHECK(path.front().fact == 1);
}

TEST_CASE("spans are those that last, by stream and start") {
  const auto spans = trace::spans(forward_of_three());
  REQUIRE(spans.size() == 6);
  CHECK(spans[0].stream == 0);
  CHECK(spans[0].kind == "forward");
  CHECK(spans[0].label == "0");
  CHECK_FALSE(spans[0].collective);
  CHECK(spans[3].stream == 1);
  CHECK(spans[3].kind == "all_gather");
  CHECK(spans[3].collective);
  CHECK(spans[5].start == 20 * ms);
  CHECK(spans[5].end == 30 * ms);
}
