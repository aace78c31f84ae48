// The functions of an MPI library that the fabric `mpi` uses, as a table. The fabric includes no header of a library,
// so it builds everywhere. A shared object for each library (module/) fills the table, because the ABIs of Open MPI and
// MPICH differ. There is one library in a process, and so one table.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardproof::fabric::mpi {

/// A function's status: 0, the library's own code, or a code of the module.
using Status = int;

struct MpiTable {
  static constexpr std::uint32_t current_version = 1;
  static constexpr std::size_t text_bytes = 1024;  ///< room for each text

  std::uint32_t version;  ///< of this header
  std::uint32_t bytes;  ///< sizeof(MpiTable)
  void (*name)(char* text);  ///< `Open MPI v4.1.4`; may be called at any time
  /// Initializes the library, unless the program has done so, and makes a communicator of all ranks. Waits for them.
  Status (*start)(int* rank, int* size, int* greatest_tag);
  Status (*send)(const void* bytes, std::size_t count, int to, int tag, std::uint64_t* request);
  Status (*receive)(void* room, std::size_t bytes, int from, int tag, std::uint64_t* request);
  Status (*test)(std::uint64_t* request, int* is_over);
  Status (*cancel)(std::uint64_t* request);
  Status (*probe)(int* found, int* from, int* tag, std::size_t* bytes);
  Status (*finish)();  ///< Finalizes the library if `start` has initialized it. Waits for the other ranks.
  void (*error_text)(Status status, char* text);
};

/// The function that a module exports under this name.
using TableFunction = const MpiTable* (*)();
inline constexpr char table_function[] = "shardproof_mpi_table";

}  // namespace shardproof::fabric::mpi
