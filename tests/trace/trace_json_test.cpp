#include "harness/protocol/trace_json.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/trace/trace_builder.hpp"

using namespace shardproof;
using nlohmann::ordered_json;
using shardproof::test::TraceBuilder;

namespace {

// Every kind of fact, with the largest numbers that it can hold.
Trace everything() {
  constexpr auto big = std::numeric_limits<std::uint64_t>::max();
  TraceBuilder builder;
  builder.stream(1, StreamRole::copy_in, "in \"quotes\"")
      .allocate(1, 1, big, "layers.0", MemoryClass::reduce_input)
      .host("init", {}, {{1, 0, 4}});
  builder.work(1, "w", {{1, 2, 3}, {4, 5, big}}, {})
      .gather(1, "tag", -5, std::numeric_limits<Nanoseconds>::max(), {{1, 0, 4}}, {{2, 0, 8}});
  builder.record(1, big).wait(0, big).synchronize_event(big).synchronize_stream(1).release(1, 1);
  builder.adopt(0, 9, 4).release_to_cache(0, 9).mark("end", 7);
  Trace trace = builder;
  trace.rank = 3;
  auto& collective = std::get<fact::Collective>(trace.facts[4]);
  collective.kind = CollectiveKind::reduce_scatter;
  collective.dtype = DType::bf16;
  collective.op = ReduceOp::premul_sum;
  return trace;
}

}  // namespace

TEST_CASE("a trace comes back from JSON as it was") {
  const Trace trace = everything();
  const std::string text = ordered_json(trace).dump();
  const Trace back = ordered_json::parse(text).get<Trace>();
  CHECK(back == trace);
  CHECK(ordered_json(back).dump() == text);
}

TEST_CASE("facts are readable") {
  TraceBuilder builder;
  builder.work(0, "layers.0", {}, {{1, 0, 16}}).record(0, 1).release(2, 1);
  CHECK(ordered_json(builder.trace()).dump() ==
        R"({"rank":0,"facts":[{"fact":"work","stream":0,"kind":"forward","label":"layers.0",)"
        R"("start":0,"end":0,"writes":[[1,0,16]]},)"
        R"({"fact":"record","stream":0,"event":1},{"fact":"release","stream":2,"buffer":1}]})");
}

TEST_CASE("every name reads back as what it names") {
  Trace trace;
  for (int i = 0; i <= static_cast<int>(WorkKind::other); ++i)
    trace.facts.emplace_back(fact::Work{.kind = static_cast<WorkKind>(i)});
  for (int i = 0; i <= static_cast<int>(StreamRole::other); ++i) {
    trace.facts.emplace_back(fact::StreamCreated{.role = static_cast<StreamRole>(i)});
  }
  for (int i = 0; i <= static_cast<int>(MemoryClass::other); ++i) {
    trace.facts.emplace_back(fact::Allocated{.memory = static_cast<MemoryClass>(i)});
  }
  CHECK(ordered_json(trace).get<Trace>() == trace);
}

TEST_CASE("what is no trace is refused with its place") {
  const auto [text, message] = GENERATE(table<const char*, const char*>({
      {R"([])", "trace: expected an object, found an array of 0"},
      {R"({"facts": []})", "trace: \"rank\" is missing, expected an integer"},
      {R"({"rank": 0, "facts": [{"fact": "jump"}]})", "trace: fact 0: no fact is called \"jump\""},
      {R"({"rank": 0, "facts": [{"fact": "mark", "text": "a", "time": 1}, {"fact": "record", "stream": 1}]})",
       "trace: fact 1 (record): \"event\" is missing, expected an integer"},
      {R"({"rank": 0, "facts": [{"fact": "stream", "stream": 1, "role": "slow", "name": ""}]})",
       "trace: fact 0 (stream): \"role\": unknown value \"slow\""},
      {R"({"rank": 0, "facts": [{"fact": "host_access", "label": "", "reads": [[1, 2]]}]})",
       "trace: fact 0 (host_access): \"reads\": expected ranges of three numbers, [buffer, offset, length], found an "
       "array of 2"},
  }));
  CHECK_THROWS_MATCHES(ordered_json::parse(text).get<Trace>(), std::invalid_argument,
                       Catch::Matchers::Message(message));
}
