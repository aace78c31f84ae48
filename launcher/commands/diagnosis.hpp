// Reports machine settings that slow or break runs, and how to repair them. `inspect_machine` collects facts, and
// `diagnose` judges them. So tests can judge machines that do not exist.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/gpu_listing.hpp"
#include "harness/protocol/mpi_library.hpp"

namespace shardproof::launcher {

/// The machine's state, as far as runs depend on it. An unknown value is absent.
struct MachineState {
  int cores = 0;  ///< Usable by this process. 0: unknown.
  int online_cores = 0;  ///< All cores of the machine.
  std::string kernel;  ///< As in `6.1.0`.
  std::filesystem::path memory;  ///< Memory file system where ranks meet. Empty: no writable one.
  std::uint64_t memory_free = 0;  ///< In bytes.
  std::filesystem::path output;  ///< The folder for runs.
  std::uint64_t output_free = 0;  ///< In bytes.
  bool output_is_remote = false;  ///< A network file system.
  std::uint64_t open_files = 0, most_open_files = 0;  ///< The soft and the hard limit.
  std::optional<std::uint64_t> processes;  ///< This user's limit. Absent: unlimited.
  std::optional<std::uint64_t> file_size;  ///< The limit in bytes. Absent: unlimited.
  std::optional<int> ptrace_scope;  ///< Setting of Yama. Absent: Yama is not loaded.
  std::string stack_tool;  ///< Path of eu-stack or gdb. Empty: neither exists.
  bool lists_children = true;  ///< Whether `/proc/PID/task/TID/children` exists.
  int gpus = 0;  ///< Number of the driver's devices.
  std::string driver;  ///< The driver's version line. Empty: no driver is loaded.
  std::optional<protocol::GpuListing> gpu_listing;  ///< The worker's answer. Absent: no backend, or see `gpu_trouble`.
  std::string gpu_trouble;  ///< Why the worker did not answer. Empty: it did, or was not asked.
  bool needs_gpus = false;  ///< The user named a backend for GPUs.
  std::filesystem::path pytorch;  ///< Environment for `--subject pytorch`. Empty: not found.
  std::string pytorch_version;  ///< The version of torch there. Empty: torch is missing.
  /// The folder in SHARDPROOF_PYTORCH, if no worker is there. Empty: no problem.
  std::filesystem::path missing_pytorch;
  std::vector<protocol::MpiLibrary> mpi;  ///< The libraries that the fabric `mpi` of this build reaches.
  std::filesystem::path nccl;  ///< Path of libnccl.so.2 in the loader's usual places. Empty: not found.
};

MachineState inspect_machine(const std::filesystem::path& output);

struct Finding {
  /// `note`: something does not run here, but needs no repair.
  enum class Weight : std::uint8_t { fine, note, hurts, prevents };
  Weight weight = Weight::fine;
  std::string what;  ///< As in `cores: 2 of 8`.
  std::string why;  ///< The consequence, and how to repair it. Empty if all is fine.
};

/// One finding for each fact, in a fixed order. Pure.
std::vector<Finding> diagnose(const MachineState& machine);

}  // namespace shardproof::launcher
