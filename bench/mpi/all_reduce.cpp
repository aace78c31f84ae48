// The comparison for bench/all_reduce: the same calls on MPI. Prints nanoseconds per call, measured on rank 0.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "bench/all_reduce.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<float> mine(shardproof::bench::all_reduce_elements, 1.0F);
  std::vector<float> sum(mine.size());
  const auto call = [&] {
    MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(mine.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  const double ns = shardproof::bench::ns_per_call(call);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%.1f\n", ns);
  MPI_Finalize();
}
