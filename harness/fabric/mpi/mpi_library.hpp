// Finds and loads, at run time, the module of the MPI library that has started this process. A program without ranks of
// this fabric does not load it.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "harness/fabric/messages/transport.hpp"
#include "harness/protocol/mpi_library.hpp"

namespace shardproof::fabric::mpi {

using protocol::MpiLibrary;

/// An environment: the value of a variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;

/// The library by whose variables this process was started. SHARDPROOF_MPI (`openmpi` or `mpich`) has precedence.
/// Throws std::runtime_error if no library has started it.
const MpiLibrary& library_of(const Environment& environment);

/// `../lib/shardproof` of the folder of this program.
std::filesystem::path default_module_folder();

/// Loads the module for the life of the process, and starts the library in it. It waits for the other ranks. Throws
/// std::runtime_error with the file and the reason: it does not exist, cannot be loaded, is from another version of
/// shardproof, or the library does not start.
std::unique_ptr<messages::Transport> open_library(const MpiLibrary& library, const std::filesystem::path& folder);

}  // namespace shardproof::fabric::mpi
