// Measures the cost of a world before its first case and after its last one: launch, rendezvous and teardown. For
// comparison it measures the same number of processes of the same binary that leave at once, and MPI. Rounds are
// interleaved, so that a busy machine affects all of them.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure.hpp"
#include "bench/worlds.hpp"

namespace shardproof::bench {
namespace {

void against_bare_processes(Bench& bench, int ranks, int rounds) {
  std::vector<double> copied, started, bare;
  for (int round = 0; round < rounds; ++round) {
    copied.push_back(bench.world_ms(ranks, {}, Ranks::copied));
    bare.push_back(bench.spawn_ms(bench.worker(), {"--help"}, ranks));
    started.push_back(bench.world_ms(ranks, {}, Ranks::started));
  }
  const auto print = [&](const char* how, const std::vector<double>& world) {
    const double ratio = median(world) / median(bare);
    const bool has_goal = ranks >= 8 && &world == &copied;
    print_row(fmt::format("empty world of {} ranks, {}", ranks, how), has_goal ? "< bare processes" : "",
              in_time(median(world) * 1e6), fmt::format("{} bare: {:.2f} ×", in_time(median(bare) * 1e6), ratio),
              !has_goal || ratio < 1);
  };
  print("copied", copied);
  print("started one by one", started);
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

// Without arguments, measures all. With arguments, measures worlds of these sizes, and not MPI.
int main(int argc, char** argv) {
  using namespace shardproof::bench;
  Bench bench;
  std::vector<int> sizes{2, 4, 8, 16, 32, 64, 128, 256};
  if (argc > 1) {
    sizes.clear();
    for (const char* size : std::span(argv + 1, argv + argc)) sizes.push_back(std::stoi(size));
  }
  for (const int ranks : sizes) against_bare_processes(bench, ranks, std::clamp(320 / ranks, 5, 41));
  if (argc > 1) return 0;
  for (const auto& [ranks, rounds] : {std::pair(2, 5), std::pair(8, 5), std::pair(64, 3)})
    against_mpi(bench, ranks, rounds);
}
