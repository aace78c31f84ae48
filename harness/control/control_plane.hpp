// ControlPlane is how the ranks of one world and their launcher agree, abort, report progress, and leave flight
// records. Each operation states its guarantee, and code above relies on nothing else. ControlPage implements it for
// ranks on one machine. Links over TCP connect the pages of several machines (link/page_link.hpp). Between machines,
// some guarantees are weaker; the comments name these.
//
// The room `control` has this interface, the shared page and the links between pages. Bytes of collectives may not
// enter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/abort.hpp"
#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/control/waiting.hpp"

namespace shardproof::protocol {
struct FlightRecord;
}

namespace shardproof::control {

class FlightRing;

/// One rank's report about itself. The launcher reads it. Only that rank writes it.
struct Progress {
  std::int64_t pid = 0;
  std::uint64_t cases_ended = 0;
  std::uint64_t cases_failed = 0;
  std::int64_t position = -1;  ///< in the plan, of the case now running; -1 between cases
  std::int64_t case_started_ns = 0;  ///< CLOCK_MONOTONIC
  bool left = false;  ///< the rank left its world in order
};

/// One rank's part of an agreement.
struct Ballot {
  std::uint64_t value = 0;
  std::string text;  ///< cut to 256 bytes
};

class ControlPlane {
 public:
  static constexpr int max_world_size = 1024;

  virtual ~ControlPlane() = default;

  virtual int world_size() const = 0;

  // -- Abort ----------------------------------------------------------------------------------------------------------

  /// Ends the case of this epoch for every rank. Returns true only for the first caller, whose `abort` is the cause
  /// that is shown. Returns false also when a later epoch was aborted already. Guarantee: every rank that waits in the
  /// epoch, or begins to wait, leaves with the same cause. This does not depend on the caller's life after the call.
  /// Between machines, ranks of two machines that abort at the same time may leave with different causes. Then the hub
  /// chooses one. From the next agreement on, `aborted` gives that cause on all machines.
  virtual bool raise_abort(std::uint32_t epoch, const Abort& abort) = 0;
  /// The cause of this epoch's abort. Only the latest aborted epoch is remembered.
  virtual std::optional<Abort> aborted(std::uint32_t epoch) const = 0;

  /// Ends the world: a rank died or overran its deadline. The first call counts. Guarantee: as for `raise_abort`, for
  /// every wait of the world, and agreements. Between machines, the call proposes the end to the hub, and `doomed`
  /// shows it after a round trip. A machine that loses the hub ends its part of the world itself, perhaps with another
  /// cause.
  virtual bool doom(const Abort& abort) = 0;
  virtual std::optional<Abort> doomed() const = 0;

  // -- Waits ----------------------------------------------------------------------------------------------------------

  /// Wakes the threads that wait on this rank's doorbell. The publisher calls it, after the publication. Guarantee: a
  /// woken thread sees what the caller wrote to shared memory before. Between machines, a doorbell says nothing about
  /// bytes that another channel carries.
  virtual void ring(int rank) const = 0;

  /// Waits in a call. Returns when `ready()` holds. Otherwise it throws:
  /// - Released when the epoch is aborted. With nullopt as epoch, only the end of the world counts.
  /// - Deadlock when a deadlock was the reason for the abort.
  /// - DeadlineExceeded with `late()` as its text when the deadline passes.
  /// `ready` may only become true by something that is published before this rank's doorbell is rung. Guarantee:
  /// readiness wins over an abort. A call that all ranks have joined is complete for all of them, even if one of them
  /// fails right after. A caller that is about to begin something new calls `check` first.
  virtual void await(int rank, const std::function<bool()>& ready, std::optional<std::uint32_t> epoch,
                     Deadline deadline, const std::function<std::string()>& late) const = 0;
  /// Throws what `await` would throw if its `ready` never held. Returns when there is nothing to throw.
  virtual void check(std::optional<std::uint32_t> epoch) const = 0;

  /// Makes `waiting` do every later wait through this object, for all threads that share the object. Without it, each
  /// rank sleeps by itself on a doorbell. Call it before any rank waits.
  virtual void wait_by(std::shared_ptr<Waiting> waiting) = 0;
  /// The rank is about to begin something that others can see: a call or an agreement.
  virtual void pause() const = 0;

  // -- Turns ----------------------------------------------------------------------------------------------------------
  // If ranks are threads that take turns, the control plane holds the rank whose turn it is. After a crash, the
  // launcher reads there which rank ran.

  virtual void give_turn(std::optional<int> rank) = 0;
  /// nullopt: ranks do not take turns, or no rank has the turn.
  virtual std::optional<int> turn() const = 0;

  // -- Agreement ------------------------------------------------------------------------------------------------------

  /// All ranks call it equally often. Returns all ballots in rank order. It ends early only when the world is doomed or
  /// the deadline passes; then the world is over for this rank. Guarantee: an agreement that is complete is returned on
  /// every rank, even if the world is doomed by then. An agreement separates epochs: no rank may still be in a call of
  /// the previous case when it votes. It costs one wake-up; between machines, a round trip. A machine that loses the
  /// hub may not learn that its last agreement is complete.
  virtual std::vector<Ballot> agree(int rank, const Ballot& mine, Deadline deadline) = 0;

  // -- Deadlock -------------------------------------------------------------------------------------------------------
  // A rank that waits can go on only by a call of another rank. Once all ranks of a world wait, in calls or in an
  // agreement, no rank can make that call. This is sound under two conditions:
  // - Each rank makes its calls from one thread.
  // - The rank that completes a call reports it *before* it lets the others go.
  // Guarantee: a deadlock aborts the epoch as soon as the last rank waits. Between machines, a bounded exchange finds
  // it, not a shared counter: it takes a tenth of a second and a few round trips.

  /// The rank has published its part of a call, and other ranks are missing. The last rank to wait completes the
  /// deadlock and aborts the epoch.
  virtual void enter_wait(std::uint32_t epoch) = 0;
  /// A call is complete: `ranks` that entered a wait for it, or are about to enter it, will go on.
  virtual void leave_waits(int ranks) = 0;

  // The waits of calls by messages. Their last message may be on its way while all ranks wait, so a count proves
  // nothing, and flight records do. Guarantee: a deadlock aborts the epoch at the next search.

  /// The rank waits for messages. It calls `leave_message_wait` when it does so no longer, for whatever reason.
  virtual void enter_message_wait() = 0;
  virtual void leave_message_wait() = 0;
  /// A rank calls it now and then in such a wait. It is cheap while a rank does not wait. Between machines, it does
  /// nothing.
  virtual void search_deadlock() = 0;

  // -- Progress and flight records ------------------------------------------------------------------------------------
  // Guarantee: what a rank wrote here can be read after the rank was killed between any two stores. A reader never
  // waits for a writer. Reports of different ranks have no order. Between machines, only a launcher's page shows the
  // progress of all ranks. It shows each change after at most 50 ms and a round trip, in times of its own clock.

  virtual void report(int rank, const Progress& progress) = 0;
  virtual Progress progress(int rank) const = 0;

  /// The ring into which this rank, and no other one, records what it does. It is in memory of this machine.
  virtual FlightRing& flight(int rank) const = 0;
  /// The flight records of all ranks, in rank order. Those of ranks on other machines are empty: a link has them.
  virtual std::vector<protocol::FlightRecord> flight_records() const = 0;
  /// The rank is on another machine, so its flight record is empty here.
  virtual bool is_remote(int rank) const = 0;
  /// Describes the rank's last call in its case, for messages that name a missing rank. Empty where the rank has made
  /// no call, or is on another machine.
  virtual std::string last_call(int rank) const = 0;
};

}  // namespace shardproof::control
