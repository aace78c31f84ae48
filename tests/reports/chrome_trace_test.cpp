#include "reports/export/chrome_trace.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/trace/trace_builder.hpp"

using namespace shardproof;
using shardproof::test::TraceBuilder;

namespace {

// One event per line, as people compare them.
std::string lines(const nlohmann::ordered_json& trace) {
  std::string text;
  for (const auto& event : trace.at("traceEvents")) text += event.dump() + "\n";
  return text;
}

std::size_t arrows(const Trace& trace) {
  std::size_t count = 0;
  const auto json = reports::chrome_trace({&trace, 1});
  for (const auto& event : json.at("traceEvents")) count += event.at("ph") == "s" ? 1 : 0;
  return count;
}

TraceBuilder layer() {
  TraceBuilder trace;
  trace.stream(1, StreamRole::all_gather, "all_gather").mark("iter 0 forward", 0);
  trace.gather(1, "layers.0", 0, 10'500, {{1, 0, 40}}, {{2, 0, 80}}).record(1, 1).wait(0, 1);
  return trace;
}

}  // namespace

TEST_CASE("a small trace, whole") {
  auto builder = layer();
  builder.span(0, WorkKind::copy_out, "layers.0", 10'500, 10'500)
      .span(0, WorkKind::forward, "layers.0", 10'500, 35'001);
  Trace trace = builder;
  trace.rank = 3;
  const auto json = reports::chrome_trace({&trace, 1});
  CHECK(json.at("displayTimeUnit") == "ms");
  CHECK(json.size() == 2);
  CHECK(lines(json) == R"({"name":"process_name","ph":"M","pid":3,"tid":0,"args":{"name":"rank 3"}}
{"name":"process_sort_index","ph":"M","pid":3,"tid":0,"args":{"sort_index":3}}
{"name":"thread_name","ph":"M","pid":3,"tid":0,"args":{"name":"compute"}}
{"name":"thread_sort_index","ph":"M","pid":3,"tid":0,"args":{"sort_index":0}}
{"name":"thread_name","ph":"M","pid":3,"tid":1,"args":{"name":"all_gather"}}
{"name":"thread_sort_index","ph":"M","pid":3,"tid":1,"args":{"sort_index":1}}
{"name":"iter 0 forward","cat":"mark","ph":"i","s":"p","pid":3,"tid":0,"ts":0.0}
{"name":"all_gather layers.0","cat":"collective","ph":"X","pid":3,"tid":1,"ts":0.0,"dur":10.5,)"
                       R"("args":{"kind":"all_gather","bytes":80,"dtype":"f32","group":[0,1],"sequence":0}}
{"name":"copy_out layers.0","cat":"work","ph":"i","pid":3,"tid":0,"ts":10.5,"s":"t","args":{"kind":"copy_out",)"
                       R"("bytes_read":0,"bytes_written":0}}
{"name":"forward layers.0","cat":"work","ph":"X","pid":3,"tid":0,"ts":10.5,"dur":24.501,"args":{"kind":"forward",)"
                       R"("bytes_read":0,"bytes_written":0}}
{"name":"wait","cat":"wait","ph":"s","id":0,"pid":3,"tid":1,"ts":10.499}
{"name":"wait","cat":"wait","ph":"f","id":0,"pid":3,"tid":0,"ts":10.5,"bp":"e"}
)");
}

TEST_CASE("only waits that held work back are drawn") {
  CHECK(arrows(layer().span(0, WorkKind::forward, "0", 10'500, 20'000)) == 1);
  // The compute stream was busy for longer than the gather.
  TraceBuilder busy;
  busy.span(0, WorkKind::forward, "0", 0, 20)
      .gather(1, "1", 0, 10)
      .record(1, 1)
      .wait(0, 1)
      .span(0, WorkKind::forward, "1", 20, 40);
  CHECK(arrows(busy) == 0);
  // The host, or another rank, came later still.
  CHECK(arrows(layer().span(0, WorkKind::forward, "0", 11'000, 20'000)) == 0);
  // An event that was never recorded, and one on the own stream.
  TraceBuilder own;
  own.span(0, WorkKind::forward, "0", 0, 20).record(0, 1).wait(0, 1).wait(0, 9).span(0, WorkKind::forward, "1", 20, 40);
  CHECK(arrows(own) == 0);
}

TEST_CASE("an arrow starts at the work that was waited for, through streams that only pass it on") {
  TraceBuilder trace;
  trace.gather(1, "0", 0, 10).record(1, 1).wait(2, 1).record(2, 2).wait(0, 2).span(0, WorkKind::forward, "0", 10, 20);
  const Trace& built = trace;
  CHECK(arrows(built) == 1);
  const auto json = reports::chrome_trace({&built, 1});
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "s") CHECK(event.at("tid") == 1);
  }
}

TEST_CASE("ranks are processes, and arrows keep apart") {
  std::vector<Trace> ranks(2, layer().span(0, WorkKind::forward, "0", 10'500, 20'000).trace());
  ranks[1].rank = 1;
  const auto json = reports::chrome_trace(ranks);
  std::vector<std::uint64_t> ids;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "s") ids.push_back(event.at("id").get<std::uint64_t>());
  }
  CHECK(ids == std::vector<std::uint64_t>{0, 1});
  CHECK(json.at("traceEvents").back().at("pid") == 1);
  CHECK(reports::chrome_trace(ranks).dump() == json.dump());
}
