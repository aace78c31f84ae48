#include "harness/trace/races.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>

#include "tests/trace/trace_builder.hpp"

using namespace shardproof;
using shardproof::test::ms;
using shardproof::test::TraceBuilder;
using shardproof::trace::find_races;
using shardproof::trace::Race;

namespace {

constexpr ByteRange all{1, 0, 16};

// Two streams, buffer 1 of 16 bytes given out on stream 0 and known to stream 1. Facts 0 to 3.
TraceBuilder two_streams() {
  TraceBuilder trace;
  trace.stream(1, StreamRole::all_gather, "all_gather").allocate(0, 1, 16, "layers.1").record(0, 1).wait(1, 1);
  return trace;
}

bool concerns_release(const trace::Race& race) { return race.first.releases || race.second.releases; }

}  // namespace

TEST_CASE("a read that does not wait for a write on another stream is a race") {
  const auto races = find_races(two_streams().work(1, "gather", {}, {all}).work(0, "use", {{1, 4, 4}}, {}));
  REQUIRE(races.size() == 1);
  CHECK(races[0].first.fact == 4);
  CHECK(races[0].first.write);
  CHECK(races[0].first.stream == "all_gather");
  CHECK(races[0].second.fact == 5);
  CHECK_FALSE(races[0].second.write);
  CHECK(races[0].bytes == ByteRange{1, 4, 4});
  CHECK(races[0].buffer == "gathered layers.1");
  CHECK_FALSE(concerns_release(races[0]));
}

TEST_CASE("an event between write and read removes the race") {
  CHECK(
      find_races(two_streams().work(1, "gather", {}, {all}).record(1, 2).wait(0, 2).work(0, "use", {all}, {})).empty());
}

TEST_CASE("an event recorded before the write does not order it") {
  CHECK(
      find_races(two_streams().record(1, 2).work(1, "gather", {}, {all}).wait(0, 2).work(0, "use", {all}, {})).size() ==
      1);
}

TEST_CASE("a wait on a third stream does not help this one") {
  auto trace = two_streams();
  trace.stream(2, StreamRole::other, "third")
      .work(1, "gather", {}, {all})
      .record(1, 2)
      .wait(2, 2)
      .work(0, "use", {all}, {});
  CHECK(find_races(trace).size() == 1);
}

TEST_CASE("order passes on through a third stream") {
  auto trace = two_streams();
  trace.stream(2, StreamRole::other, "third")
      .work(1, "gather", {}, {all})
      .record(1, 2)
      .wait(2, 2)
      .record(2, 3)
      .wait(0, 3);
  CHECK(find_races(trace.work(0, "use", {all}, {})).empty());
}

TEST_CASE("an event that is recorded again orders what came before its last recording") {
  auto trace = two_streams();
  trace.record(1, 2).work(1, "gather", {}, {all}).record(1, 2).wait(0, 2).work(0, "use", {all}, {});
  CHECK(find_races(trace).empty());
}

TEST_CASE("waiting for an event that was never recorded orders nothing") {
  CHECK(find_races(two_streams().work(1, "gather", {}, {all}).wait(0, 77).work(0, "use", {all}, {})).size() == 1);
}

TEST_CASE("a write that does not wait for a read is a race, two reads are none") {
  CHECK(find_races(two_streams().work(1, "a", {all}, {}).work(0, "b", {all}, {})).empty());
  const auto races = find_races(two_streams().work(1, "a", {all}, {}).work(0, "b", {}, {all}));
  REQUIRE(races.size() == 1);
  CHECK_FALSE(races[0].first.write);
  CHECK(races[0].second.write);
}

TEST_CASE("two unordered writes are a race") {
  CHECK(find_races(two_streams().work(1, "a", {}, {all}).work(0, "b", {}, {all})).size() == 1);
}

TEST_CASE("accesses to different bytes, or to different buffers, do not race") {
  CHECK(find_races(two_streams().work(1, "a", {}, {{1, 0, 8}}).work(0, "b", {{1, 8, 8}}, {})).empty());
  CHECK(find_races(two_streams().work(1, "a", {}, {{1, 0, 8}}).work(0, "b", {{2, 0, 8}}, {})).empty());
}

TEST_CASE("order on one stream needs no event") {
  CHECK(find_races(two_streams().work(1, "a", {}, {all}).work(1, "b", {all}, {all})).empty());
}

TEST_CASE("what one fact reads and writes does not race with itself") {
  CHECK(find_races(two_streams().gather(1, "in place", 0, 0, {{1, 4, 4}}, {all})).empty());
  CHECK(find_races(two_streams().work(1, "in place", {all, all}, {all, {1, 4, 4}})).empty());
}

TEST_CASE("work issued after the host has synchronized follows what it synchronized with") {
  CHECK(find_races(two_streams().work(1, "a", {}, {all}).synchronize_stream(1).work(0, "b", {all}, {})).empty());
  CHECK(find_races(two_streams().work(1, "a", {}, {all}).record(1, 2).synchronize_event(2).work(0, "b", {all}, {}))
            .empty());
  CHECK(find_races(two_streams().work(1, "a", {}, {all}).synchronize_stream(0).work(0, "b", {all}, {})).size() == 1);
  CHECK(find_races(two_streams().record(1, 2).work(1, "a", {}, {all}).synchronize_event(2).work(0, "b", {all}, {}))
            .size() == 1);
}

TEST_CASE("the host must synchronize before it touches what streams write") {
  const auto races = find_races(two_streams().work(1, "a", {}, {all}).host("loss", {{1, 0, 4}}, {}));
  REQUIRE(races.size() == 1);
  CHECK(races[0].second.stream.empty());
  CHECK(races[0].second.what == "the host in \"loss\"");
  CHECK(find_races(two_streams().work(1, "a", {}, {all}).synchronize_stream(1).host("loss", {all}, {})).empty());
}

TEST_CASE("the host may read what streams read, but may not overwrite it") {
  CHECK(find_races(two_streams().work(1, "a", {all}, {}).synchronize_stream(0).host("peek", {all}, {})).empty());
  CHECK(find_races(two_streams().work(1, "a", {all}, {}).synchronize_stream(0).host("poke", {}, {all})).size() == 1);
}

TEST_CASE("issuing comes after what the host did before") {
  CHECK(find_races(two_streams().synchronize_stream(0).host("init", {}, {all}).work(1, "a", {all}, {all})).empty());
}

TEST_CASE("memory is for its own stream until an event says otherwise") {
  TraceBuilder early;
  early.stream(1, StreamRole::all_gather, "ag").record(0, 1).allocate(0, 1, 16).wait(1, 1).work(1, "gather", {}, {all});
  const auto races = find_races(early);
  REQUIRE(races.size() == 1);
  CHECK(races[0].first.what == "allocation on stream compute");
  CHECK_FALSE(concerns_release(races[0]));
  CHECK(find_races(TraceBuilder().allocate(0, 1, 16).work(0, "own", {}, {all})).empty());
}

TEST_CASE("a use that the release does not wait for is a use after release") {
  const auto races = find_races(two_streams().work(1, "late", {{1, 0, 8}}, {}).release(0, 1));
  REQUIRE(races.size() == 1);
  CHECK(concerns_release(races[0]));
  CHECK(races[0].first.fact == 4);
  CHECK(races[0].second.fact == 5);
  CHECK(races[0].second.releases);
  CHECK(races[0].bytes == ByteRange{1, 0, 8});
  CHECK(find_races(two_streams().work(1, "late", {all}, {}).record(1, 2).wait(0, 2).release(0, 1)).empty());
  CHECK(find_races(two_streams().work(1, "late", {all}, {}).release(1, 1)).empty());
}

TEST_CASE("what is released to a cache may be used until the next adoption on its stream takes it") {
  const auto cached = [] { return two_streams().work(1, "late", {all}, {}).release_to_cache(0, 1); };
  CHECK(find_races(cached()).empty());
  CHECK(find_races(cached().adopt(1, 9, 8)).empty());  // of another stream's cache
  CHECK(find_races(cached().allocate(0, 9, 8)).empty());  // of no cache
  const auto races = find_races(cached().adopt(0, 9, 8, "next"));
  REQUIRE(races.size() == 1);
  CHECK(races[0].second.takes);
  CHECK(races[0].bytes == all);
  CHECK_THAT(trace::describe(races[0]),
             ContainsSubstring("may be given them, which were released, without waiting for it"));
  CHECK(find_races(cached().adopt(0, 9, 8).adopt(0, 10, 8)).size() == 1);  // the first has taken it
  CHECK(
      find_races(two_streams().work(1, "late", {all}, {}).record(1, 2).release_to_cache(0, 1).wait(0, 2).adopt(0, 9, 8))
          .empty());
  CHECK(find_races(cached().work(0, "after", {all}, {})).size() == 1);  // used after the release, as ever
}

TEST_CASE("a use issued after the release is a race whatever its order") {
  const auto races = find_races(two_streams().release(0, 1).work(0, "same stream", {{1, 0, 8}}, {}));
  REQUIRE(races.size() == 1);
  CHECK(concerns_release(races[0]));
  CHECK(races[0].first.releases);
  CHECK(races[0].bytes == ByteRange{1, 0, 8});
  CHECK(find_races(two_streams().release(0, 1).synchronize_stream(0).host("peek", {all}, {})).size() == 1);
}

TEST_CASE("memory that is given back twice is a use after release") {
  const auto races = find_races(two_streams().release(0, 1).release(0, 1));
  REQUIRE(races.size() == 1);
  CHECK(concerns_release(races[0]));
  CHECK(races[0].bytes == all);
}

TEST_CASE("adjacent pieces of one race are one range") {
  auto trace = two_streams();
  trace.work(0, "own", {}, {{1, 4, 4}}).record(0, 2).wait(1, 2);  // leaves a cut in the middle
  trace.work(1, "gather", {}, {all}).work(0, "use", {{1, 0, 4}, {1, 4, 8}}, {});
  const auto races = find_races(trace);
  REQUIRE(races.size() == 1);
  CHECK(races[0].bytes == ByteRange{1, 0, 12});
}

TEST_CASE("of several earlier accesses only those count that nothing orders before another") {
  auto trace = two_streams();
  trace.work(1, "first", {}, {all}).work(1, "second", {}, {all}).work(0, "use", {all}, {});
  const auto races = find_races(trace);
  REQUIRE(races.size() == 1);
  CHECK(races[0].first.fact == 5);
}

TEST_CASE("races come in host order of the later access and stop at the limit") {
  auto trace = two_streams();
  trace.work(1, "gather", {}, {all});
  for (int i = 0; i < 5; ++i) trace.work(0, "use", {all}, {});
  const auto races = find_races(trace, 3);
  REQUIRE(races.size() == 3);
  CHECK(races[0].second.fact == 5);
  CHECK(races[1].second.fact == 6);
  CHECK(races[2].second.fact == 7);
  CHECK(find_races(trace, 100).size() == 5);
  CHECK(find_races(trace, 0).empty());
}

TEST_CASE("collectives on two streams are not ordered by the resource they share") {
  auto trace = two_streams();
  trace.gather(1, "a", 0, 10 * ms, {}, {all}).gather(0, "b", 10 * ms, 20 * ms, {all}, {});
  CHECK(find_races(trace).size() == 1);
}

TEST_CASE("a race reads like a sentence") {
  auto trace = two_streams();
  trace.gather(1, "layers.1", 10 * ms, 20 * ms, {}, {all}).work(0, "layers.1", {all}, {});
  CHECK(trace::describe(find_races(trace).at(0)) ==
        "all_gather \"layers.1\" on stream all_gather (10 ms..20 ms) writes bytes 0..16 of buffer 1 "
        "\"gathered layers.1\"\n"
        "  then    forward \"layers.1\" on stream compute (0 ms..0 ms) reads them; nothing orders the two\n"
        "  missing: stream compute waits for an event recorded on stream all_gather after the first");

  auto host = two_streams();
  host.work(1, "sum", {}, {all}).host("loss", {all}, {});
  CHECK(trace::describe(find_races(host).at(0)) ==
        "forward \"sum\" on stream all_gather (0 ms..0 ms) writes bytes 0..16 of buffer 1 \"gathered "
        "layers.1\"\n"
        "  then    the host in \"loss\" reads them; nothing orders the two\n"
        "  missing: the host waits for stream all_gather in between");

  CHECK(trace::describe(find_races(two_streams().work(1, "late", {all}, {}).release(0, 1)).at(0)) ==
        "forward \"late\" on stream all_gather (0 ms..0 ms) reads bytes 0..16 of buffer 1 \"gathered "
        "layers.1\"\n"
        "  then    release on stream compute gives them back without waiting for it\n"
        "  missing: stream compute waits for an event recorded on stream all_gather after the first");

  CHECK(trace::describe(find_races(two_streams().release(0, 1).work(0, "use", {all}, {})).at(0)) ==
        "release on stream compute gives back bytes 0..16 of buffer 1 \"gathered layers.1\"\n"
        "  then    forward \"use\" on stream compute (0 ms..0 ms) reads them afterwards\n"
        "  missing: a release after the last use");

  CHECK(trace::describe(find_races(two_streams().release(0, 1).release(0, 1)).at(0)) ==
        "release on stream compute gives back bytes 0..16 of buffer 1 \"gathered layers.1\"\n"
        "  then    release on stream compute gives them back again\n"
        "  missing: one release only");
}

// Four streams pass 64 buffers around, every piece of work touches three of them; in half of the rounds a buffer is
// released and a new one made.
TEST_CASE("a hundred thousand pieces of work", "[.bench]") {
  Trace trace;
  for (std::uint32_t stream = 1; stream < 4; ++stream) {
    trace.facts.emplace_back(fact::StreamCreated{stream, StreamRole::other, "s" + std::to_string(stream)});
  }
  std::uint64_t next_buffer = 1;
  std::vector<std::uint64_t> ring;
  for (int i = 0; i < 64; ++i) {
    ring.push_back(next_buffer);
    trace.facts.emplace_back(fact::Allocated{0, next_buffer++, 4096, MemoryClass::other, "buffer"});
  }
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    const std::uint32_t stream = i % 4;
    trace.facts.emplace_back(fact::EventWaited{stream, i});
    const std::uint64_t a = ring[i % 64];
    const std::uint64_t b = ring[(i * 7 + 3) % 64];
    trace.facts.emplace_back(fact::Work{.stream = stream,
                                        .kind = WorkKind::forward,
                                        .label = "layers.0.attention.query",
                                        .start = i,
                                        .end = i + 1,
                                        .reads = {{a, (i % 8) * 512, 512}, {a, 0, 256}},
                                        .writes = {{b, (i % 16) * 256, 256}}});
    if (i % 2 == 0) {
      trace.facts.emplace_back(fact::Released{stream, a});
      ring[i % 64] = next_buffer;
      trace.facts.emplace_back(fact::Allocated{stream, next_buffer++, 4096, MemoryClass::other, "buffer"});
    }
    trace.facts.emplace_back(fact::EventRecorded{stream, i + 1});
  }
  const auto start = std::chrono::steady_clock::now();
  const auto races = find_races(trace);
  const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  WARN(trace.facts.size() << " facts in " << took << " s");
  CHECK(races.empty());
}
