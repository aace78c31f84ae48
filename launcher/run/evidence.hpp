// Collects evidence about ranks that hang, while their processes still live: their kernel status, and the stacks of
// their threads. Stacks need an installed tool. A running world (world.cpp) owns it. It does not block the launcher,
// and takes at most `time_limit`.
//
// The collection is not over before each rank has had `chance` to go on. On a busy machine, a rank may get no processor
// for a second: then it is slow, and not stuck.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/run_directory.hpp"
#include "launcher/process/free_time.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"

namespace shardproof::launcher {

/// Appends to a file of evidence. Ignores a failure to write: the run goes on without this evidence.
void add_evidence(const std::filesystem::path& file, std::string_view text);

/// A program that prints the stacks of all threads of a process.
struct StackTool {
  std::filesystem::path program;
  std::function<std::vector<std::string>(pid_t)> arguments;
};

/// The first tool that this machine has: eu-stack (elfutils), which takes about 10 ms, or gdb, which takes 300 ms.
/// `path` is a list of folders, like $PATH. Nullptr: no folders.
std::optional<StackTool> find_stack_tool(const char* path);

class EvidenceCollector {
 public:
  static constexpr std::chrono::seconds time_limit{10};
  /// The time for a rank to go on, without the time in which it waits for a processor.
  static constexpr std::chrono::milliseconds chance{100};

  struct Suspect {
    int rank = 0;
    pid_t process = 0;
  };

  /// Writes `rank-N.status` for every suspect at once. Then starts to take their stacks, in this order. This object
  /// uses the poller's keys from `first_key` on. The files also say what could not be collected. Such a failure stops
  /// no other work.
  EvidenceCollector(const protocol::WorldDirectory& directory, const std::vector<Suspect>& suspects,
                    const std::optional<StackTool>& tool, Poller& poller, std::uint64_t first_key);
  /// Ends the tools that still run. Continues each process that such a tool has left stopped.
  ~EvidenceCollector();
  EvidenceCollector(const EvidenceCollector&) = delete;
  EvidenceCollector& operator=(const EvidenceCollector&) = delete;

  /// The caller calls this if a descriptor with a key of this object is readable, or `deadline()` has passed.
  void advance(const std::vector<std::uint64_t>& ready, control::Deadline now);
  bool done() const { return running_.empty() && waiting_.empty() && busy_.empty(); }
  control::Deadline deadline() const;

 private:
  struct StackTrace {
    Suspect suspect;
    Process process;
    control::Deadline until;
  };

  /// A rank that has not had its chance.
  struct Busy {
    Suspect suspect;
    FreeTime time;
  };

  void look_at_busy(control::Deadline now);
  std::chrono::steady_clock::duration share(control::Deadline now) const;
  void start_some(control::Deadline now);
  void resume(pid_t process) const;
  void end(std::uint64_t key, const std::string& note);

  const protocol::WorldDirectory directory_;
  const std::optional<StackTool> tool_;
  Poller& poller_;
  std::uint64_t next_key_;
  control::Deadline until_;
  std::deque<Suspect> waiting_;
  std::map<std::uint64_t, StackTrace> running_;
  std::vector<Busy> busy_;
  control::Deadline next_look_;
  std::vector<pid_t> ran_;  ///< processes that ran when the evidence began
};

}  // namespace shardproof::launcher
