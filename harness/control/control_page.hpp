// The shared page of one world: who is alive and where, the abort word, the doorbells on which ranks sleep, and the ballots by which they
// agree. The launcher creates it; ranks map it. It works for processes and for threads, and it outlives any of them.
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

/// Why waits end early: the guilty rank and what it did.
struct Abort {
  int culprit = -1;  ///< -1: the launcher
  AbortReason reason = AbortReason::error;
  std::string text;  ///< cut to 512 bytes
};

/// Thrown out of a wait whose world or case was aborted by another rank. The case's outcome does not depend on whether a body lets it pass.
class Released : public std::runtime_error {
 public:
  explicit Released(Abort abort);
  const Abort& abort() const { return abort_; }

 private:
  Abort abort_;
};

/// Thrown on every rank that waits in a call when no rank of the world can go on; the same text on all of them, saying where each one
/// waits.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What one rank says of itself, for the launcher's eyes. Single writer: that rank.
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

  /// Makes the file; throws std::system_error naming it.
  static ControlPage create(const std::filesystem::path& file, int world_size, std::string_view nonce);
  /// Maps what `create` made; throws std::runtime_error when the file is of another world (nonce) or another build's layout.
  static ControlPage open(const std::filesystem::path& file, std::string_view nonce);
  /// For ranks that are threads of this process.
  static ControlPage anonymous(int world_size);

  ControlPage(ControlPage&&) noexcept;
  ControlPage& operator=(ControlPage&&) noexcept;
  ~ControlPage();

  int world_size() const;

  // -- Abort -------------------------------------------------------------------------------------------------------------------------

  /// Ends the case of this epoch for every rank. True for the one caller who was first; its word is the cause that is shown. False, too,
  /// when a later epoch was aborted already.
  bool raise_abort(std::uint32_t epoch, const Abort& abort);
  /// Only the latest epoch that was aborted is remembered.
  std::optional<Abort> aborted(std::uint32_t epoch) const;

  /// Ends the world: a rank died or overran its deadline. The first one counts.
  bool doom(const Abort& abort);
  std::optional<Abort> doomed() const;

  // -- Doorbells ---------------------------------------------------------------------------------------------------------------------

  /// Tells whoever sleeps on this rank's doorbell that something has been published. Called by the publisher, after the publication.
  void ring(int rank) const;

  /// The one wait: returns when `ready()` holds; throws Released when the epoch is aborted (nullopt: only when the world is doomed),
  /// Deadlock when that is why it was, and DeadlineExceeded with `late()` as its text. `ready` may only become true by something that is
  /// published before this rank's doorbell is rung. Readiness wins over an abort: what everybody has taken part in is complete for
  /// everybody, though one of them may fail the moment after. Who is about to begin something new calls `check` first.
  void await(int rank, const std::function<bool()>& ready, std::optional<std::uint32_t> epoch, Deadline deadline,
             const std::function<std::string()>& late) const;
  /// Throws what `await` would throw of something that never gets ready, and returns when there is nothing to throw.
  void check(std::optional<std::uint32_t> epoch) const;

  /// From here on every wait through this object is done in that way, for all who share the object. Without it, ranks sleep on their
  /// doorbells, each on its own. To be called before anybody waits.
  void wait_by(std::shared_ptr<Waiting> waiting);
  /// A rank is about to begin something that others can see: a call, an agreement.
  void pause() const;

  // -- Turns -------------------------------------------------------------------------------------------------------------------------
  // Where ranks are threads that take turns, the page says whose turn it is: whoever looks at it after a crash knows who ran.

  void give_turn(std::optional<int> rank);
  /// nullopt: ranks do not take turns, or nobody has it.
  std::optional<int> turn() const;

  // -- Agreement ---------------------------------------------------------------------------------------------------------------------

  struct Ballot {
    std::uint64_t value = 0;
    std::string text;  ///< cut to 256 bytes
  };

  /// All ranks call it equally often; returns all ballots in rank order. Ends early only when the world is doomed or the deadline passes;
  /// then the world is over for this rank. An agreement that is complete is returned even if the world is doomed by then. Nobody may still
  /// be in a call of the case before when it votes: an agreement separates epochs.
  std::vector<Ballot> agree(int rank, const Ballot& mine, Deadline deadline);

  // -- Deadlock ----------------------------------------------------------------------------------------------------------------------
  // A rank that waits can go on only by a call of another rank. Once all ranks of a world wait, in calls or in an agreement, nobody will
  // ever make that call. Sound only where a rank makes its calls from one thread, and where whoever completes a call says so *before* it
  // lets the others go.

  /// The rank's part of a call is published, and others are missing. The rank that makes the circle whole aborts the epoch.
  void enter_wait(std::uint32_t epoch);
  /// A call is complete: `ranks` that entered a wait for it, or are about to, will go on.
  void leave_waits(int ranks);

  // -- Progress ----------------------------------------------------------------------------------------------------------------------

  void report(int rank, const Progress& progress);
  Progress progress(int rank) const;

  // -- Flight record -----------------------------------------------------------------------------------------------------------------

  /// Where the rank writes down what it does, and nobody else does.
  FlightRing& flight(int rank) const;
  /// What all ranks did last, in rank order.
  std::vector<FlightRecord> flight_records() const;
  /// The rank's last call in its case, in words for messages that say who is missing; empty where it has made none.
  std::string last_call(int rank) const;

 private:
  struct Mapping;
  explicit ControlPage(std::unique_ptr<Mapping> mapping);
  void find_deadlock();
  std::unique_ptr<Mapping> mapping_;
};

}  // namespace shardproof
