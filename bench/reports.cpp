// Measures the merge of the streams of a large world, and the comparison of two of its reports. This program writes the
// world itself, by the functions that ranks use, because so many real ranks would take too long.
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/measure.hpp"
#include "bench/worlds.hpp"
#include "harness/base/json_text.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/protocol/events.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::bench {
namespace {

constexpr int ranks = 1024;
constexpr int cases = 1000;

/// Writes a stream with the length of a suite's stream. Each case begins, measures nothing and passes.
void write_stream(const protocol::WorldDirectory& world, const protocol::WorldPlan& plan, int rank) {
  std::ofstream out(world.rank_stream(rank));
  const auto write = [&](const protocol::RankEvent& event) { out << protocol::to_line(event) << '\n'; };
  write(protocol::event::RankStarted{.rank = rank,
                                     .world_size = ranks,
                                     .pid = rank + 1,
                                     .host = "bench",
                                     .nonce = plan.nonce,
                                     .suite_version = "1",
                                     .build = "bench",
                                     .protocol = protocol::Listing::current_protocol});
  std::int64_t now = 1'000'000'000;
  for (std::uint64_t position = 0; position < plan.cases.size(); ++position) {
    const std::string& id = plan.cases[position];
    write(protocol::event::CaseStarted{.id = id, .position = position, .monotonic_ns = now += 1'000});
    write(
        protocol::event::CaseEnded{.id = id, .position = position, .assertions = 5, .reason = {}, .duration_ns = 900});
  }
  write(protocol::event::RankEnded{rank});
}

void write_run(const protocol::RunDirectory& run) {
  const protocol::WorldDirectory world = run.world(0);
  std::filesystem::create_directories(world.ranks());
  protocol::WorldPlan plan{
      .size = ranks, .nonce = "n", .rendezvous = {}, .directory = world.root, .subject = {}, .fault = {}, .cases = {}};
  for (int i = 0; i < cases; ++i) plan.cases.push_back(fmt::format("bench/case_{:04}[W={}]", i, ranks));
  std::vector<protocol::Ending> endings;
  for (int rank = 0; rank < ranks; ++rank) {
    write_stream(world, plan, rank);
    endings.push_back({.rank = rank, .how = protocol::Ending::How::exited, .code = 0, .position = -1, .text = {}});
  }
  std::ofstream(world.plan()) << base::dump_document(plan);
  std::ofstream(world.endings()) << base::dump_document(endings);
}

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
  bench::write_run(run);
  bench::measure(bench, "merge", {"merge", run.root.string()});
  bench::measure(bench, "diff", {"diff", run.report().string(), run.report().string()});
}
