// What of this machine will hurt a run, and how to mend it. What is there is looked at in one place, what it means is said in another, so that
// the saying can be tested for machines that nobody has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/gpu_listing.hpp"

namespace shardproof::launcher {

/// As far as a run depends on it. What could not be found out is absent.
struct MachineState {
  int cores = 0;  ///< that this process may use; 0: unknown
  int online_cores = 0;  ///< that the machine has
  std::string kernel;  ///< 6.1.0
  std::filesystem::path memory;  ///< the memory file system in which ranks meet; empty: there is none that can be written to
  std::uint64_t memory_free = 0;  ///< bytes
  std::filesystem::path output;  ///< where runs are written to
  std::uint64_t output_free = 0;  ///< bytes
  bool output_is_remote = false;  ///< a network file system
  std::uint64_t open_files = 0, most_open_files = 0;  ///< the soft and the hard limit
  std::optional<std::uint64_t> processes;  ///< the limit of this user; absent: none
  std::optional<std::uint64_t> file_size;  ///< the limit in bytes; absent: none
  std::optional<int> ptrace_scope;  ///< of Yama; absent: no such module
  std::string stack_tool;  ///< eu-stack or gdb, as a path; empty: neither
  bool tells_children = true;  ///< /proc/PID/task/TID/children
  int gpus = 0;  ///< devices of the driver
  std::string driver;  ///< its version line; empty: none is loaded
  std::optional<GpuListing> gpu_listing;  ///< what a worker says of them by a backend; absent: there is no backend
  std::string gpu_trouble;  ///< why it does not
  bool needs_gpus = false;  ///< somebody has named the backend by which runs are to reach them
  std::filesystem::path pytorch;  ///< the environment for `--subject pytorch`; empty: there is none
  std::string pytorch_version;  ///< of torch in it; empty: it has none
  std::filesystem::path missing_pytorch;  ///< where somebody says that there is one, and there is none; empty: nobody does
  std::filesystem::path nccl;  ///< libnccl.so.2, where the loader would find it by its usual places; empty: not there
};

MachineState look_at_machine(const std::filesystem::path& output);

struct Finding {
  /// A note says what does not run here, where nothing has to be repaired.
  enum class Weight : std::uint8_t { fine, note, hurts, prevents };
  Weight weight = Weight::fine;
  std::string what;  ///< `cores: 2 of 8`
  std::string why;  ///< what comes of it, and how to mend it; empty for what is fine
};

/// One for everything that was looked at, in a fixed order. Pure.
std::vector<Finding> diagnose(const MachineState& machine);

}  // namespace shardproof::launcher
