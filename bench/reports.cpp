// Measures the merge of the streams of a large world, and the comparison of two of its reports.
#include "bench/measure.hpp"
#include "bench/rank_streams.hpp"
#include "bench/worlds.hpp"
#include "harness/protocol/run_directory.hpp"

namespace shardproof::bench {
namespace {

constexpr int ranks = 1024;
constexpr int cases = 1000;

void measure(Bench& bench, const std::string& what, const std::vector<std::string>& arguments) {
  std::vector<double> runs;
  for (int round = 0; round < 3; ++round) runs.push_back(bench.spawn_ms(programs() / "shardproof", arguments, 1));
  const double ns = median(runs) * 1e6;
  print_row(fmt::format("{} of {} ranks × {} cases", what, ranks, cases), "≤ 1 s", in_time(ns), "", ns <= 1e9);
}

}  // namespace
}  // namespace shardproof::bench

int main() {
  using namespace shardproof;
  bench::Bench bench;
  const protocol::RunDirectory run{bench.fresh()};
  bench::write_run(run, bench::ranks, bench::cases);
  bench::measure(bench, "merge", {"merge", run.root.string()});
  bench::measure(bench, "diff", {"diff", run.report().string(), run.report().string()});
}
