#include "harness/trace/memory.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <stdexcept>

#include "tests/trace/trace_builder.hpp"

using namespace shardproof;
using shardproof::test::TraceBuilder;
using shardproof::trace::Live;

TEST_CASE("live memory is counted by class, in host order") {
  TraceBuilder trace;
  trace.allocate(0, 1, 100, "a").allocate(0, 2, 10, "b").allocate(0, 3, 7, "other class", MemoryClass::gradient);
  trace.mark("both", 0)
      .release(0, 1)
      .mark("one", 0)
      .allocate(0, 4, 20, "c")
      .allocate(0, 5, 30, "d")
      .release(1, 4)
      .mark("end", 0);
  CHECK(trace::at(trace, MemoryClass::gathered, "both") == Live{2, 110});
  CHECK(trace::at(trace, MemoryClass::gathered, "one") == Live{1, 10});
  CHECK(trace::at(trace, MemoryClass::gradient, "one") == Live{1, 7});
  CHECK(trace::at(trace, MemoryClass::gathered, "end") == Live{2, 40});
  // Three buffers were never more than 60 bytes, two were 110: each maximum on its own.
  CHECK(trace::peak(trace, MemoryClass::gathered) == Live{3, 110});
  CHECK(trace::peak(trace, MemoryClass::shard) == Live{});
  CHECK_THROWS_MATCHES(trace::at(trace, MemoryClass::gathered, "x"), std::out_of_range,
                       Catch::Matchers::Message("no mark \"x\" in the trace of rank 0"));
}

TEST_CASE("a peak between two marks begins with what is alive at the first") {
  TraceBuilder trace;
  trace.allocate(0, 1, 100)
      .allocate(0, 2, 50)
      .release(0, 1)
      .mark("from", 0)
      .allocate(0, 3, 5)
      .release(0, 3)
      .mark("to", 0)
      .allocate(0, 4, 500);
  CHECK(trace::peak(trace, MemoryClass::gathered, "from", "to") == Live{2, 55});
  CHECK(trace::peak(trace, MemoryClass::gathered, "from", "from") == Live{1, 50});
  CHECK_THROWS_MATCHES(trace::peak(trace, MemoryClass::gathered, "x", "to"), std::out_of_range,
                       Catch::Matchers::Message("no mark \"x\" in the trace of rank 0"));
  CHECK_THROWS_MATCHES(trace::peak(trace, MemoryClass::gathered, "to", "from"), std::out_of_range,
                       Catch::Matchers::Message("no mark \"from\" in the trace of rank 0"));
}

TEST_CASE("a release counts once, and only for what was allocated") {
  TraceBuilder trace;
  trace.allocate(0, 1, 8).allocate(0, 2, 8).release(0, 1).release(0, 1).release(0, 9).mark("end", 0);
  CHECK(trace::at(trace, MemoryClass::gathered, "end") == Live{1, 8});
}

TEST_CASE("what is alive at the end is named in the order of its allocation, the first few of many") {
  TraceBuilder trace;
  CHECK(trace::left_alive(trace).empty());
  trace.allocate(0, 1, 8, "a").allocate(0, 2, 12, "b", MemoryClass::gradient).release(0, 1);
  CHECK(trace::describe(trace::left_alive(trace)) == "1 buffer: gradient \"b\" of 12 bytes");
  trace.allocate(0, 3, 4, "c")
      .allocate(1, 4, 4, "d")
      .allocate(1, 5, 4, "e")
      .allocate(1, 6, 4, "f")
      .release(1, 4)
      .release(1, 9);
  CHECK(trace::describe(trace::left_alive(trace)) ==
        "4 buffers: gradient \"b\" of 12 bytes, gathered \"c\" of 4 bytes, gathered \"e\" of 4 bytes and 1 more");
}
