// The modules for the fabric `mpi`, shared objects that reach MPI libraries for ranks. Finds their files. The launcher
// itself never loads one.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/protocol/mpi_library.hpp"

namespace shardproof::launcher {

/// The folder of the modules that belong to this executable.
std::filesystem::path mpi_module_folder();

/// The libraries whose module is in the folder.
std::vector<protocol::MpiLibrary> built_mpi_libraries(const std::filesystem::path& folder);

/// Throws CommandError (usage) if the folder has no module.
void require_mpi_module(const std::filesystem::path& folder);

}  // namespace shardproof::launcher
