// When did each piece of work and each collective run? By the rules of virtual time, by the events around it, or by what CUPTI recorded of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "harness/device/cost_model.hpp"
#include "harness/device/cuda/gpu.hpp"
#include "harness/device/cuda/nccl_group.hpp"
#include "harness/device/platform.hpp"
#include "harness/protocol/trace.hpp"

namespace shardproof::cuda {

/// A piece whose times are to be told: by two events, and by CUPTI's records where there are any.
struct TimedPiece {
  std::size_t fact;  ///< in the trace: the first of the piece
  std::size_t facts = 1;  ///< collectives of one call share their times
  EventHandle start, end;
  Nanoseconds cost;
  std::shared_ptr<const NcclGroup> group;  ///< of a collective that is not imagined
  std::uint64_t piece;  ///< in CUPTI's records; 0: there are none
  std::uint64_t launches;  ///< records that there are at least
};

/// The trace at virtual times: what its order and the costs make of it. Collective over the groups of its collectives: their descriptors went
/// behind the host, and when each rank would have been ready is only known now.
Trace at_virtual_times(const Trace& trace, std::span<const TimedPiece> pieces, const CostModel& costs);

/// A memset under this id between two events, which all have ended: what time it was by both clocks.
struct ClockSign {
  EventHandle before, after;
  std::uint64_t piece;
};

/// Times from an origin. All that it asks after has ended.
class PieceTimes {
 public:
  /// `recorded`: the events that the trace knows, the one with the number 1 first.
  PieceTimes(Gpu& gpu, EventHandle origin, std::span<const TimedPiece> pieces, std::span<const EventHandle> recorded)
      : gpu_(gpu), origin_(origin), pieces_(pieces), recorded_(recorded) {}

  Trace by_events(Trace trace) const;
  /// Takes the records of the GPU. A piece starts with the first thing that it put on its stream, and ends with the last. Throws
  /// std::runtime_error when one of these is not among the records, or has no times.
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

}  // namespace shardproof::cuda
