// What bench/launch stands beside: ranks that do nothing but join an MPI world and leave it.
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Finalize();
}
