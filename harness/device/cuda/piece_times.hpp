// Computes when each piece of work and each collective ran: by the rules of virtual time, by the events around it, or
// by CUPTI's records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "harness/device/cuda/gpu.hpp"
#include "harness/device/cuda/nccl_group.hpp"
#include "harness/device/device_options.hpp"
#include "harness/device/platform.hpp"
#include "harness/protocol/trace.hpp"

namespace shardproof::device::cuda {

/// A piece to time: by two events, and by CUPTI's records if there are any.
struct TimedPiece {
  std::size_t fact;  ///< The index in the trace of the piece's first fact.
  std::size_t facts = 1;  ///< Collectives of one call share their times.
  EventHandle start, end;
  Nanoseconds cost;
  std::shared_ptr<const NcclGroup> group;  ///< For a collective that is not imagined.
  std::uint64_t piece;  ///< Its id in CUPTI's records; 0: there are no records.
  std::uint64_t launches;  ///< The smallest number of records to expect.
};

/// The trace at virtual times, which follow from its order, the costs of the pieces and the options. Collective over
/// the groups of its collectives. Descriptors were compared after the hosts had issued the calls. So the ranks only now
/// exchange when each would have been ready.
Trace at_virtual_times(const Trace& trace, std::span<const TimedPiece> pieces, const DeviceOptions& options);

/// Relates the clock of the events to the clock of the records: a memset under this id between two events, which all
/// have ended.
struct ClockSign {
  EventHandle before, after;
  std::uint64_t piece;
};

/// Computes times from an origin. All its events and pieces have ended.
class PieceTimes {
 public:
  /// `recorded` has the events of the trace; number 1 comes first.
  PieceTimes(Gpu& gpu, EventHandle origin, std::span<const TimedPiece> pieces, std::span<const EventHandle> recorded)
      : gpu_(gpu), origin_(origin), pieces_(pieces), recorded_(recorded) {}

  Trace by_events(Trace trace) const;
  /// Takes the records of the GPU. A piece starts with its first operation on its stream, and ends with its last.
  /// Throws std::runtime_error if an operation is missing from the records, or has no times.
  Trace by_records(Trace trace, const ClockSign& sign, RecordedTimes& about) const;

 private:
  struct Span {
    Nanoseconds start, end;
  };
  Nanoseconds time_of(EventHandle event) const;
  Span by_events(const TimedPiece& piece) const { return {time_of(piece.start), time_of(piece.end)}; }
  Trace with_marks(Trace trace) const;

  Gpu& gpu_;
  EventHandle origin_;
  std::span<const TimedPiece> pieces_;
  std::span<const EventHandle> recorded_;
};

}  // namespace shardproof::device::cuda
