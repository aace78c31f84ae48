// Finds the piece of work or collective that each CUPTI record belongs to. A thread that launches work pushes the
// piece's id first. Libraries launch from threads of their own, without an id; the position on the stream assigns those
// records. A rank has one log, for the life of its GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <source_location>
#include <span>
#include <string_view>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

class Gpu;

/// The time from the earliest start to the latest end of a piece's records, by the clock of the recording library.
struct ActivitySpan {
  std::int64_t start_ns = 0, end_ns = 0;
  std::size_t records = 0;  ///< Records with times.
  std::size_t untimed = 0;  ///< Records whose times the library does not know.
};

/// Ids of pieces are even. The next odd id marks the position before the piece on its stream, and is not part of the
/// piece. `no_piece` is the id of everything that belongs to no piece.
inline constexpr std::uint64_t no_piece = 1;
constexpr std::uint64_t place_before(std::uint64_t piece) { return piece + 1; }

/// Groups records by piece. A record without an id belongs to the last piece before it on its stream, by that piece's
/// own records or position. If the last id before it is `no_piece`, it belongs to no piece. Records that start at the
/// same time are in stream order.
std::map<std::uint64_t, ActivitySpan> spans_by_piece(std::span<const ActivityRecord> records);

class ActivityLog {
 public:
  /// Starts to record what runs on the GPU. Throws VendorError.
  ActivityLog(const ActivityTable& table, Gpu& gpu);
  /// Ends the recording. Errors go to Gpu::complain.
  ~ActivityLog();
  ActivityLog(const ActivityLog&) = delete;
  ActivityLog& operator=(const ActivityLog&) = delete;

  /// An id that no other piece of this rank has.
  std::uint64_t next_piece() { return last_piece_ += 2; }

  /// While a scope lives, everything that its thread launches has this id. Scopes of a thread end in reverse order. A
  /// scope without a log does nothing.
  class Scope {
   public:
    /// Throws VendorError.
    Scope(ActivityLog* log, std::uint64_t id);
    /// Errors go to Gpu::complain.
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ActivityLog* log_;
  };

  /// Returns the spans of everything that ran since the last call. The caller has waited for that work. Throws
  /// VendorError, and std::runtime_error if records were lost.
  std::map<std::uint64_t, ActivitySpan> take_spans();
  /// Drops the records so far, which would otherwise stay until the next `take_spans`. Errors go to Gpu::complain.
  void forget() noexcept;

 private:
  std::span<const ActivityRecord> flush(std::size_t& dropped);
  void check(Status status, std::string_view operation,
             std::source_location location = std::source_location::current()) const;

  const ActivityTable& table_;
  Gpu& gpu_;
  std::uint64_t last_piece_ = 0;
};

}  // namespace shardproof::device::cuda
