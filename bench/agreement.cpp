// Measures the harness's cost per case. Two ranks agree to start the case, run it as a Catch2 run of one trivial
// assertion, write its lines, and agree on its end. The cost follows from the difference between a world with 300 such
// cases and the same world without cases.
#include "bench/measure.hpp"
#include "bench/worlds.hpp"

int main() {
  using namespace shardproof::bench;
  Bench bench;
  const auto cases = bench.cases("bench/trivial");
  std::vector<double> full, empty;
  for (int round = 0; round < 21; ++round) {
    full.push_back(bench.world_ms(2, cases));
    empty.push_back(bench.world_ms(2, {}));
  }
  const double ns = (median(full) - median(empty)) * 1e6 / static_cast<double>(cases.size());
  print_row(fmt::format("one of {} trivial cases, 2 ranks", cases.size()), "≤ 100 µs", in_time(ns), "", ns <= 100e3);
}
