// The comparison for bench/launch: ranks that only join an MPI world and leave it.
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Finalize();
}
