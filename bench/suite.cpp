// The whole suite at two ranks, from the start of the launcher to its end, report written.
#include <nlohmann/json.hpp>

#include "bench/measure.hpp"
#include "bench/worlds.hpp"

int main() {
  using namespace shardproof::bench;
  Bench bench;
  std::vector<double> runs;
  std::size_t cases = 0;
  for (int round = 0; round < 11; ++round) {
    const auto out = bench.fresh();
    runs.push_back(bench.spawn_ms(programs() / "shardproof", {"run", "--ranks", "2", "--out", out.string()}, 1));
    cases = nlohmann::json::parse(read(out / "report.json")).at("cases").size();
  }
  const double ns = median(runs) * 1e6;
  print_row(fmt::format("the suite, {} cases at 2 ranks, launch to report", cases), "< 1 s", in_time(ns),
            fmt::format("{} per case", in_time(ns / static_cast<double>(cases))), ns < 1e9);
}
