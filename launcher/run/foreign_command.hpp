// ForeignCommand is the command of `run --launcher`, such as mpirun: its process, its end, and the measures that end
// it. ForeignRanks (foreign_ranks.hpp) owns it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/doorbell.hpp"  // Deadline
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"

namespace shardproof::launcher {

/// The word in the command that becomes the number of ranks.
inline constexpr char ranks_word[] = "{ranks}";

/// The command for a world of this size.
std::string launcher_command(std::string command, int world_size);

class ForeignCommand {
 public:
  /// The time from the first measure against guards to SIGTERM for the command, and from one measure to the next.
  static constexpr std::chrono::seconds between_measures{1};

  /// `line`: for the shell. The poller, which outlives this object, has the process under `key`.
  ForeignCommand(std::string line, Poller& poller, std::uint64_t key);

  /// The command starts a guard for each rank of the world in this directory. Throws std::system_error.
  void start(const std::filesystem::path& world, const base::FileDescriptor& log);

  const std::string& line() const { return line_; }
  bool runs() const { return process_.has_value(); }
  /// Sees whether it has ended. Returns true once.
  bool collect();
  /// nullopt: it has not ended, or was not started.
  const std::optional<Exit>& end() const { return end_; }
  /// When this process saw the end.
  control::Deadline ended_at() const { return ended_at_; }

  // -- Measures -------------------------------------------------------------------------------------------------------

  /// SIGTERM then, and SIGKILL and giving up later, if it still runs. The earliest time stays.
  void end_at(control::Deadline at);
  /// The time of the next `take_measures`.
  control::Deadline deadline() const;
  /// The owner does this with the guards.
  struct Due {
    bool kill_guards = false;
    bool drop_guards = false;
  };
  Due take_measures(control::Deadline now);

 private:
  std::string line_;
  Poller& poller_;
  std::uint64_t key_;
  std::optional<Process> process_;
  std::optional<Exit> end_;
  control::Deadline ended_at_{};
  // In this order.
  control::Deadline terminate_at_ = control::Deadline::max(), kill_at_ = control::Deadline::max(),
                    abandon_at_ = control::Deadline::max();
};

}  // namespace shardproof::launcher
