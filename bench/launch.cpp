// Measures the cost of a world before its first case and after its last one: launch, rendezvous and teardown. For
// comparison it measures the same number of processes of the same binary that leave at once, and MPI. Rounds are
// interleaved, so that a busy machine affects all of them.
#include "bench/measure.hpp"
#include "bench/worlds.hpp"

namespace shardproof::bench {
namespace {

void against_bare_processes(Bench& bench, int ranks, int rounds) {
  std::vector<double> world, bare;
  for (int round = 0; round < rounds; ++round) {
    world.push_back(bench.world_ms(ranks, {}));
    bare.push_back(bench.spawn_ms(bench.worker(), {"--help"}, ranks));
  }
  const double ratio = median(world) / median(bare);
  print_row(fmt::format("empty world of {} ranks", ranks), "≤ 1.5 × bare processes", in_time(median(world) * 1e6),
            fmt::format("{} bare: {:.2f} ×", in_time(median(bare) * 1e6), ratio), ratio <= 1.5);
}

void against_mpi(Bench& bench, int ranks, int rounds) {
  std::vector<double> world, mpi;
  for (int round = 0; round < rounds; ++round) {
    world.push_back(bench.world_ms(ranks, {}));
    mpi.push_back(bench.spawn_ms(find_program("mpirun"), mpirun_arguments(ranks, programs() / "bench-mpi-empty"), 1));
  }
  const double ratio = median(mpi) / median(world);
  print_row(fmt::format("empty world of {} ranks", ranks), "≥ 5 × faster than mpirun", in_time(median(world) * 1e6),
            fmt::format("{} mpirun: {:.1f} ×", in_time(median(mpi) * 1e6), ratio), ratio >= 5);
}

}  // namespace
}  // namespace shardproof::bench

int main() {
  using namespace shardproof::bench;
  Bench bench;
  for (const auto& [ranks, rounds] : {std::pair(2, 41), std::pair(8, 21), std::pair(64, 9), std::pair(256, 5)}) {
    against_bare_processes(bench, ranks, rounds);
  }
  for (const auto& [ranks, rounds] : {std::pair(2, 5), std::pair(8, 5), std::pair(64, 3)})
    against_mpi(bench, ranks, rounds);
}
