// A minimal launcher for the ranks of one world, without the launcher's own code: processes, a control page, a plan.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/protocol/events.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::test {

/// The end of one rank's process, and its output.
struct RankRemains {
  int exit_code = -1;
  int signal = 0;
  std::string errors;  ///< its standard error
  std::string output;
  std::vector<protocol::event::CaseEnded> cases;
  std::vector<protocol::event::AssertionFailed> failures;
  std::vector<protocol::event::Measured> measurements;
  bool began = false, ended = false;  ///< rank_started, rank_ended
  bool left = false;                  ///< as the control page says

  const protocol::event::CaseEnded& only_case() const;
};

struct WorldRemains {
  std::vector<RankRemains> ranks;
  std::map<std::string, std::string> traces;
};

struct WorldOptions {
  std::function<void(protocol::WorldPlan&)> plan;  ///< changes the default plan
  std::string shell;  ///< a command of sh that starts a rank in its own way, as "$0"; empty: started directly
  /// A command of an MPI library that starts all ranks, without its number of ranks. Empty: the driver starts them.
  std::vector<std::string> mpirun;
};

/// Starts `size` ranks of the program and waits for all of them. Dooms the world if a rank ends without leaving.
WorldRemains run_world(const std::string& program, int size, std::vector<std::string> cases,
                       const WorldOptions& options = {});

struct ProgramEnd {
  int exit_code = -1;
  std::string output, errors;
};

/// Runs `count` copies of the program at the same time to their end. Adds `environment` to the inherited variables of
/// copy i.
std::vector<ProgramEnd> run_program(const std::string& program, std::vector<std::string> arguments, int count = 1,
                                    const std::function<std::map<std::string, std::string>(int)>& environment = {});

/// Reads a rank's stream; every line must be an event.
void read_stream(const std::filesystem::path& file, RankRemains& into);

/// A new directory. The destructor removes it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace shardproof::test
