// Measures the checks over recorded facts, on traces like an engine's. Each layer has a gather, a copy out of it, the
// layer itself, and the release of both buffers.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "bench/measure.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/trace/races.hpp"
#include "harness/trace/timeline.hpp"

namespace shardproof::bench {
namespace {

constexpr std::uint32_t compute = 0;
constexpr std::uint32_t gathering = 1;

/// A trace with three correctly ordered pieces of work per layer. The buffers of two layers are alive at a time.
Trace layers(std::int64_t works) {
  Trace trace;
  trace.facts = {fact::StreamCreated{.stream = compute, .role = StreamRole::compute, .name = "compute"},
                 fact::StreamCreated{.stream = gathering, .role = StreamRole::all_gather, .name = "all_gather"}};
  std::uint64_t event = 0;
  std::uint64_t buffer = 0;
  Nanoseconds time = 0;
  constexpr std::uint64_t bytes = 4096;
  for (std::int64_t layer = 0; layer < works / 3; ++layer) {
    const std::uint64_t gathered = ++buffer;
    const std::uint64_t parameter = ++buffer;
    const auto add = [&](Fact fact) { trace.facts.push_back(std::move(fact)); };
    add(fact::Allocated{
        .stream = gathering, .buffer = gathered, .bytes = bytes, .memory = MemoryClass::gathered, .label = "layer"});
    add(fact::Collective{.stream = gathering,
                         .kind = CollectiveKind::all_gather,
                         .dtype = DType::f32,
                         .in_count = bytes / 8,
                         .out_count = bytes / 4,
                         .group = {0, 1},
                         .tag = "layer",
                         .start = time,
                         .end = time + 1,
                         .reads = {},
                         .writes = {{gathered, 0, bytes}}});
    add(fact::EventRecorded{.stream = gathering, .event = ++event});
    add(fact::EventWaited{.stream = compute, .event = event});
    add(fact::Allocated{
        .stream = compute, .buffer = parameter, .bytes = bytes, .memory = MemoryClass::parameter, .label = "layer"});
    add(fact::Work{.stream = compute,
                   .kind = WorkKind::copy_out,
                   .label = "layer",
                   .start = time + 1,
                   .end = time + 2,
                   .reads = {{gathered, 0, bytes}},
                   .writes = {{parameter, 0, bytes}}});
    add(fact::EventRecorded{.stream = compute, .event = ++event});
    add(fact::EventWaited{.stream = gathering, .event = event});
    add(fact::Released{.stream = gathering, .buffer = gathered});
    add(fact::Work{.stream = compute,
                   .kind = WorkKind::forward,
                   .label = "layer",
                   .start = time + 2,
                   .end = time + 3,
                   .reads = {{parameter, 0, bytes}},
                   .writes = {}});
    add(fact::Released{.stream = compute, .buffer = parameter});
    time += 3;
  }
  return trace;
}

void races(benchmark::State& state) {
  const Trace trace = layers(state.range(0));
  for (auto _ : state) {
    if (!trace::find_races(trace).empty()) state.SkipWithError("a race in a trace that has none");
  }
}
BENCHMARK(races)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kNanosecond);

void critical_path(benchmark::State& state) {
  const Trace trace = layers(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(trace::critical_path(trace));
}
BENCHMARK(critical_path)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kNanosecond);

/// Prints Google Benchmark's results as rows of our table.
class Rows : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const double ns = run.GetAdjustedRealTime();
      print_row(run.benchmark_name() + " (pieces of work)", "< 500 ms",
                run.error_occurred ? run.error_message : in_time(ns), "", !run.error_occurred && ns < 5e8);
    }
  }
};

}  // namespace
}  // namespace shardproof::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  shardproof::bench::Rows rows;
  benchmark::RunSpecifiedBenchmarks(&rows);
}
