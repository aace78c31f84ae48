// The MPI libraries of the fabric `mpi`. The ABIs of the libraries differ, so ranks reach each library by a shared
// object, its module. A build has the modules of the libraries that it found.
#pragma once

#include <array>
#include <string_view>

namespace shardproof::protocol {

struct MpiLibrary {
  std::string_view name;  ///< `Open MPI`
  std::string_view module;  ///< `libshardproof_mpi_openmpi.so`
  std::string_view package;  ///< Debian's, with which the module is built
};

inline constexpr MpiLibrary open_mpi{"Open MPI", "libshardproof_mpi_openmpi.so", "libopenmpi-dev"};
inline constexpr MpiLibrary mpich{"MPICH", "libshardproof_mpi_mpich.so", "libmpich-dev"};
inline constexpr std::array mpi_libraries{open_mpi, mpich};

}  // namespace shardproof::protocol
