// ControlPage is the shared memory page of one world. The launcher creates it, and the ranks map it. It holds:
// - which ranks live, and where each one is,
// - the abort word,
// - the doorbells on which ranks sleep,
// - the ballots by which ranks agree.
// Ranks can be processes or threads. The page outlives any of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/control/waiting.hpp"

namespace shardproof {

class FlightRing;
struct FlightRecord;

enum class AbortReason : std::uint8_t { failed, error, skipped, died, deadline, deadlock, disagreed, interrupted };

std::string_view to_string(AbortReason reason);

/// The reason why waits end early: the rank that caused it, and what that rank did.
struct Abort {
  int culprit = -1;  ///< -1: the launcher
  AbortReason reason = AbortReason::error;
  std::string text;  ///< cut to 512 bytes
};

/// A wait throws it when another rank aborted the world or the case. The case has the same outcome whether or not the
/// test body lets the exception propagate.
class Released : public std::runtime_error {
 public:
  explicit Released(Abort abort);
  const Abort& abort() const { return abort_; }

 private:
  Abort abort_;
};

/// Every rank that waits in a call throws it when no rank of the world can go on. The text is the same on all ranks: it
/// says where each rank waits.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One rank's report about itself. The launcher reads it. Only that rank writes it.
struct Progress {
  std::int64_t pid = 0;
  std::uint64_t cases_ended = 0;
  std::uint64_t cases_failed = 0;
  std::int64_t position = -1;  ///< in the plan, of the case now running; -1 between cases
  std::int64_t case_started_ns = 0;  ///< CLOCK_MONOTONIC
  bool left = false;  ///< the rank left its world in order
};

class ControlPage {
 public:
  static constexpr int max_world_size = 1024;

  /// Makes the file. Throws std::system_error, which names the file.
  static ControlPage create(const std::filesystem::path& file, int world_size, std::string_view nonce);
  /// Maps a file that `create` made. Throws std::runtime_error when the file has another world's nonce or another
  /// build's layout.
  static ControlPage open(const std::filesystem::path& file, std::string_view nonce);
  /// For ranks that are threads of this process.
  static ControlPage anonymous(int world_size);

  ControlPage(ControlPage&&) noexcept;
  ControlPage& operator=(ControlPage&&) noexcept;
  ~ControlPage();

  int world_size() const;

  // -- Abort ----------------------------------------------------------------------------------------------------------

  /// Ends the case of this epoch for every rank. Returns true only for the first caller, whose `abort` is the cause
  /// that is shown. Returns false also when a later epoch was aborted already.
  bool raise_abort(std::uint32_t epoch, const Abort& abort);
  /// The page remembers only the latest epoch that was aborted.
  std::optional<Abort> aborted(std::uint32_t epoch) const;

  /// Ends the world: a rank died or overran its deadline. The first call counts.
  bool doom(const Abort& abort);
  std::optional<Abort> doomed() const;

  // -- Doorbells ------------------------------------------------------------------------------------------------------

  /// Wakes the threads that sleep on this rank's doorbell. The publisher calls it, after the publication.
  void ring(int rank) const;

  /// Waits in a call. Returns when `ready()` holds. Otherwise it throws:
  /// - Released when the epoch is aborted. With nullopt as epoch, only the end of the world counts.
  /// - Deadlock when a deadlock was the reason for the abort.
  /// - DeadlineExceeded with `late()` as its text when the deadline passes.
  /// `ready` may only become true by something that is published before this rank's doorbell is rung. Readiness wins
  /// over an abort. A call that all ranks have joined is complete for all of them, even if one of them fails right
  /// after. A caller that is about to begin something new calls `check` first.
  void await(int rank, const std::function<bool()>& ready, std::optional<std::uint32_t> epoch, Deadline deadline,
             const std::function<std::string()>& late) const;
  /// Throws what `await` would throw if its `ready` never held. Returns when there is nothing to throw.
  void check(std::optional<std::uint32_t> epoch) const;

  /// Makes `waiting` do every later wait through this object, for all threads that share the object. Without it, each
  /// rank sleeps by itself on a doorbell. Call it before any rank waits.
  void wait_by(std::shared_ptr<Waiting> waiting);
  /// The rank is about to begin something that others can see: a call or an agreement.
  void pause() const;

  // -- Turns ----------------------------------------------------------------------------------------------------------
  // Where ranks are threads that take turns, the page holds the rank whose turn it is. After a crash, the launcher
  // reads there which rank ran.

  void give_turn(std::optional<int> rank);
  /// nullopt: ranks do not take turns, or no rank has the turn.
  std::optional<int> turn() const;

  // -- Agreement ------------------------------------------------------------------------------------------------------

  struct Ballot {
    std::uint64_t value = 0;
    std::string text;  ///< cut to 256 bytes
  };

  /// All ranks call it equally often. Returns all ballots in rank order. It ends early only when the world is doomed or
  /// the deadline passes; then the world is over for this rank. An agreement that is complete is returned even if the
  /// world is doomed by then. An agreement separates epochs: no rank may still be in a call of the previous case when
  /// it votes.
  std::vector<Ballot> agree(int rank, const Ballot& mine, Deadline deadline);

  // -- Deadlock -------------------------------------------------------------------------------------------------------
  // A rank that waits can go on only by a call of another rank. Once all ranks of a world wait, in calls or in an
  // agreement, no rank can make that call. This is sound under two conditions:
  // - Each rank makes its calls from one thread.
  // - The rank that completes a call reports it *before* it lets the others go.

  /// The rank has published its part of a call, and other ranks are missing. The last rank to wait completes the
  /// deadlock and aborts the epoch.
  void enter_wait(std::uint32_t epoch);
  /// A call is complete: `ranks` that entered a wait for it, or are about to enter it, will go on.
  void leave_waits(int ranks);

  // -- Progress -------------------------------------------------------------------------------------------------------

  void report(int rank, const Progress& progress);
  Progress progress(int rank) const;

  // -- Flight record --------------------------------------------------------------------------------------------------

  /// The ring into which this rank, and no other one, records what it does.
  FlightRing& flight(int rank) const;
  /// The flight records of all ranks, in rank order.
  std::vector<FlightRecord> flight_records() const;
  /// Describes the rank's last call in its case, for messages that name a missing rank. Empty where the rank has made
  /// no call.
  std::string last_call(int rank) const;

 private:
  struct Mapping;
  explicit ControlPage(std::unique_ptr<Mapping> mapping);
  void find_deadlock();
  std::unique_ptr<Mapping> mapping_;
};

}  // namespace shardproof
