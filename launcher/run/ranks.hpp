// Ranks is how a running world (run/world.cpp) starts, watches and ends its ranks. RankProcesses are children of this
// process. A command of the user starts ForeignRanks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/protocol/flight_record.hpp"
#include "launcher/process/process.hpp"

namespace shardproof::launcher {

class Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  /// Kills the ranks that still live.
  virtual ~Ranks() = default;

  /// The reason why `rank`, and all ranks after it, could not be started.
  struct Failure {
    int rank = 0;
    std::string why;
  };
  /// Starts the ranks. Throws CommandError if a log cannot be opened.
  virtual std::optional<Failure> start() = 0;

  /// Whether all ranks are threads of one process.
  virtual bool is_one_process() const = 0;
  /// Whether the rank was started and has not ended.
  virtual bool is_alive(int rank) const = 0;
  virtual bool all_have_ended() const = 0;
  /// Whether all ranks, and everything that this object has started for them, have ended.
  virtual bool is_over() const { return all_have_ended(); }
  /// The process of a rank that lives. 0: it is not known.
  virtual pid_t pid(int rank) const = 0;
  /// The time of the next `collect` without an event.
  virtual control::Deadline deadline() const { return control::Deadline::max(); }

  /// Whether one of these keys of the poller shows that a rank has ended. The rank's process number is its own until
  /// `collect`.
  virtual bool shows_end(const std::vector<std::uint64_t>& ready) const = 0;
  struct Ended {
    int rank = 0;  ///< 0 if all ranks are one process
    Exit end;
    bool lacked_memory = false;  ///< The kernel killed it because memory ran out.
    std::string reason;  ///< Why another process ended it, as in protocol::Ending.
    bool was_asked = false;  ///< Its guard passed on a signal, and a signal ended it.
  };
  /// Returns the ranks whose end these keys of the poller show, and no longer counts them as alive. Deaths by a signal
  /// come first: they explain why another rank gave up.
  virtual std::vector<Ended> collect(const std::vector<std::uint64_t>& ready) = 0;

  /// Ranks that were not started, and will not be.
  struct Unstarted {
    std::vector<int> ranks;
    std::string why;
    std::string output;  ///< further lines for the user, such as the last output of a command
  };
  /// Found by the last `collect`. No longer counts them as alive.
  virtual Unstarted take_unstarted() { return {}; }

  // -- Ranks on other hosts -------------------------------------------------------------------------------------------

  /// The flight records of all ranks now, where the page of this host does not have them. Waits at most a second for
  /// other hosts.
  virtual std::optional<std::vector<protocol::FlightRecord>> flight_records() { return std::nullopt; }
  /// Whether guards take the stacks of their ranks, and save those of crashes. Then this host cannot.
  virtual bool guards_collect_evidence() const { return false; }
  /// Asks guards for the stacks of their ranks.
  virtual void collect_evidence() {}
  /// When to wait no longer for these stacks. Nullopt: all are there.
  virtual std::optional<control::Deadline> evidence_deadline() const { return std::nullopt; }
  /// Whether the rank's guard has seen its end, and so saves the stack of its crash.
  virtual bool guard_saw_end(int /*rank*/) const { return false; }
  /// Where the ranks find each other, if not in the rendezvous directory of this host.
  virtual std::optional<std::filesystem::path> store() const { return std::nullopt; }

  /// After the page of this host is doomed: sees that ranks on other hosts are released, too. Waits at most a second.
  virtual void release() {}

  /// Sends a signal to each rank and to all processes that it has started.
  virtual void signal_all(int number) noexcept = 0;

  struct Abandoned {
    int rank = 0;
    pid_t process = 0;
  };
  /// Gives up all ranks that still live. The launcher no longer waits for them.
  virtual std::vector<Abandoned> abandon() = 0;
};

/// The ranks of a world of `size` that live, in ascending order.
std::vector<int> alive(const Ranks& ranks, int size);

}  // namespace shardproof::launcher
