// Measures the suites as users run them, from the start of the launcher to its end, including the report.
#include <nlohmann/json.hpp>

#include "bench/measure.hpp"
#include "bench/worlds.hpp"

namespace shardproof::bench {

namespace {

constexpr int rounds = 5;

struct Measured {
  double ns = 0;  ///< the median of all rounds
  std::size_t cases = 0;
};

Measured measured(Bench& bench, const std::vector<std::string>& selection) {
  std::vector<double> runs;
  std::size_t cases = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto out = bench.fresh();
    std::vector<std::string> arguments{"run", "--out", out.string()};
    arguments.insert(arguments.end(), selection.begin(), selection.end());
    runs.push_back(bench.spawn_ms(programs() / "shardproof", arguments, 1));
    cases = nlohmann::json::parse(read(out / "report.json")).at("cases").size();
  }
  return {.ns = median(runs) * 1e6, .cases = cases};
}

void print_run(std::string_view what, const Measured& run, double goal_s) {
  const double each = run.ns / static_cast<double>(run.cases);
  print_row(fmt::format("{}, {} cases, launch to report", what, run.cases), fmt::format("< {} s", goal_s),
            in_time(run.ns), fmt::format("{} per case", in_time(each)), run.ns < goal_s * 1e9);
}

void print_case(Bench& bench, const std::string& ranks, double goal_ms) {
  const Measured run = measured(bench, {"--ranks", ranks});
  const double each = run.ns / static_cast<double>(run.cases);
  print_row(fmt::format("one of {} cases at W = {}", run.cases, ranks), fmt::format("≤ {} ms", goal_ms), in_time(each),
            "", each <= goal_ms * 1e6);
}

}  // namespace

}  // namespace shardproof::bench

int main() {
  using namespace shardproof::bench;
  Bench bench;
  print_run("`overlap` and `extensions`", measured(bench, {"overlap", "extensions"}), 3);
  print_run("all five suites", measured(bench, {}), 6);
  print_case(bench, "1", 0.3);
  print_case(bench, "2", 0.5);
  print_case(bench, "4", 1.5);
}
