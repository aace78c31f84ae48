#include "harness/trace/pieces.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <stdexcept>

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using trace::Piece;
using trace::Resource;

namespace {

constexpr std::uint32_t compute = 0, gathers = 1, reductions = 2;

Fact forward(const char* label, Nanoseconds start, Nanoseconds end) {
  return fact::Work{.stream = compute, .kind = WorkKind::forward, .label = label, .start = start, .end = end};
}

Fact collective(std::uint32_t stream, CollectiveKind kind, const char* tag, Nanoseconds start, Nanoseconds end) {
  return fact::Collective{.stream = stream, .kind = kind, .group = {0, 1}, .tag = tag, .start = start, .end = end};
}

/// "a" and "b" are gathered in one call, and then "c".
Trace coalesced() {
  const auto call = [](std::uint64_t sequence, const char* tag, Nanoseconds start, Nanoseconds end) {
    return fact::Collective{.stream = gathers,
                            .kind = CollectiveKind::all_gather,
                            .sequence = sequence,
                            .group = {0, 1},
                            .tag = tag,
                            .start = start,
                            .end = end};
  };
  return {.rank = 0,
          .facts = {fact::StreamCreated{gathers, StreamRole::all_gather, "gathers"}, call(0, "a", 0, 2),
                    call(0, "b", 0, 2), call(1, "c", 2, 3)}};
}

Fact gather(const char* tag, Nanoseconds start, Nanoseconds end) {
  return collective(gathers, CollectiveKind::all_gather, tag, start, end);
}

/// "a" is gathered, then computed; meanwhile "b" is gathered.
Trace two_layers(Nanoseconds times = 1) {
  return {.rank = 0,
          .facts = {fact::StreamCreated{gathers, StreamRole::all_gather, "gathers"}, gather("a", 0, 2 * times),
                    fact::EventRecorded{gathers, 1}, fact::EventWaited{compute, 1}, forward("a", 2 * times, 7 * times),
                    gather("b", 2 * times, 5 * times), fact::EventRecorded{gathers, 2}, fact::EventWaited{compute, 2},
                    forward("b", 7 * times, 8 * times), fact::Mark{"end", 8 * times}}};
}

const Piece gather_a{CollectiveKind::all_gather, "a"}, gather_b{CollectiveKind::all_gather, "b"},
    forward_a{WorkKind::forward, "a"}, forward_b{WorkKind::forward, "b"};

bool passes(const Trace& trace, const Piece& held, const Piece& passing, Resource resource = Resource::of_group) {
  return trace::can_pass(trace, held, passing, resource);
}

}  // namespace

TEST_CASE("pieces are counted by kind and label, and facts that are none have none") {
  const Trace trace{.rank = 0, .facts = {gather("a", 0, 1), fact::Mark{"m", 0}, forward("a", 0, 1), gather("a", 0, 1)}};
  const auto all = trace::pieces(trace);
  REQUIRE(all.size() == 4);
  CHECK(all[0] == gather_a);
  CHECK_FALSE(all[1]);
  CHECK(all[2] == forward_a);
  CHECK(all[3] == Piece{CollectiveKind::all_gather, "a", 2});
  CHECK(to_string(*all[3]) == "all_gather \"a\" (2)");
  CHECK(to_string(forward_a) == "forward \"a\"");
}

TEST_CASE("a piece passes another unless streams, events or the host make it wait") {
  const Trace trace = two_layers();
  CHECK(passes(trace, forward_a, gather_b));
  CHECK(passes(trace, gather_b, forward_a));
  CHECK_FALSE(passes(trace, gather_a, forward_a));
  CHECK_FALSE(passes(trace, forward_a, forward_b));
  CHECK_FALSE(passes(trace, gather_b, forward_b));
  CHECK(passes(trace, forward_b, gather_a));  // which comes first

  Trace waiting = two_layers();
  waiting.facts.insert(waiting.facts.begin() + 5, fact::StreamSynchronized{compute});
  CHECK_FALSE(passes(waiting, forward_a, gather_b));
}

TEST_CASE("a piece does not pass one that its collective's resource has to wait for") {
  // A reduction waits for computation, and a gather on its own stream was issued after it.
  const Trace trace{.rank = 0,
                    .facts = {forward("a", 0, 4), fact::EventRecorded{compute, 1}, fact::EventWaited{reductions, 1},
                              collective(reductions, CollectiveKind::reduce_scatter, "a", 4, 5), gather("b", 5, 6)}};
  CHECK_FALSE(passes(trace, forward_a, gather_b));
  CHECK(passes(trace, forward_a, gather_b, Resource::of_group_and_kind));
}

TEST_CASE("a piece that is not there is an error that names it") {
  CHECK_THROWS_MATCHES(
      passes(two_layers(), forward_a, Piece{CollectiveKind::all_reduce, "c", 3}), std::out_of_range,
      Catch::Matchers::MessageMatches(ContainsSubstring("all_reduce \"c\" (3) is not in the trace of rank 0")));
}

TEST_CASE("a trace that ran as its order permits is what is expected of its durations") {
  const Trace trace = two_layers();
  const trace::Durations durations = trace::shortest(std::vector{trace});
  CHECK(durations.at(forward_a) == 5);
  CHECK(durations.at(gather_b) == 3);
  CHECK(trace::expected(trace, durations, Resource::of_group) == trace);
}

TEST_CASE("of several traces the shortest duration of each piece counts, whichever it is from") {
  Trace slow = two_layers(3), late = two_layers();
  std::get<fact::Work>(late.facts[4]).end += 10;
  std::get<fact::Mark>(late.facts[9]).time += 10;
  const trace::Durations durations = trace::shortest(std::vector{slow, late});
  CHECK(durations.at(gather_a) == 2);
  CHECK(durations.at(forward_a) == 15);
  const Trace expected = trace::expected(slow, durations, Resource::of_group);
  CHECK(std::get<fact::Mark>(expected.facts[9]).time == 2 + 15 + 1);
}

TEST_CASE("a piece without a duration is an error that names it") {
  CHECK_THROWS_MATCHES(trace::expected(two_layers(), {{gather_a, 1}}, Resource::of_group), std::out_of_range,
                       Catch::Matchers::MessageMatches(ContainsSubstring("forward \"a\" has no duration")));
}

TEST_CASE("collectives of one call start and end together, and take as long as the longest one") {
  const Trace trace = coalesced();
  const auto timed = [&](Nanoseconds a, Nanoseconds b) {
    const trace::Durations durations{{gather_a, a}, {gather_b, b}, {Piece{CollectiveKind::all_gather, "c"}, 1}};
    std::vector<Nanoseconds> ends;
    for (const Fact& fact : trace::expected(trace, durations, Resource::of_group).facts) {
      if (const auto* const call = std::get_if<fact::Collective>(&fact)) ends.push_back(call->end);
    }
    return ends;
  };
  CHECK(timed(5, 5) == std::vector<Nanoseconds>{5, 5, 6});
  CHECK(timed(5, 8) == std::vector<Nanoseconds>{8, 8, 9});
  CHECK_FALSE(passes(trace, gather_b, gather_a));
  CHECK_FALSE(passes(trace, gather_a, gather_b));
}
