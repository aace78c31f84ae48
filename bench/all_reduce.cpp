// Measures an all-reduce of 1 KiB on the shm fabric and on Open MPI, in turns.
#include <nlohmann/json.hpp>

#include "bench/measure.hpp"
#include "bench/worlds.hpp"

namespace shardproof::bench {
namespace {

double ours_ns(Bench& bench, int ranks) {
  const auto out = bench.fresh();
  bench.spawn(
      programs() / "shardproof",
      {"run", fmt::format("bench/all_reduce[W={}]", ranks), "--worker", bench.worker().string(), "--out", out.string()},
      1, bench.fresh());
  return nlohmann::json::parse(read(out / "report.json"))
      .at("cases")
      .at(0)
      .at("measurements")
      .at("all_reduce_ns")
      .at("value")
      .get<double>();
}

double mpi_ns(Bench& bench, int ranks) {
  const auto output = bench.fresh();
  bench.spawn(find_program("mpirun"), mpirun_arguments(ranks, programs() / "bench-mpi-all-reduce"), 1, output);
  return std::stod(read(output));
}

}  // namespace
}  // namespace shardproof::bench

int main() {
  using namespace shardproof::bench;
  Bench bench;
  for (const int ranks : {2, 4}) {
    std::vector<double> ours, mpi;
    for (int round = 0; round < 7; ++round) {
      ours.push_back(ours_ns(bench, ranks));
      mpi.push_back(mpi_ns(bench, ranks));
    }
    print_row(fmt::format("all-reduce of 1 KiB, {} ranks", ranks), "no slower than Open MPI", in_time(median(ours)),
              fmt::format("{} Open MPI: {:.2f} ×", in_time(median(mpi)), median(ours) / median(mpi)),
              median(ours) <= median(mpi));
  }
}
