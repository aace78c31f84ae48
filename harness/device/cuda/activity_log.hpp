// Which piece of work or collective a record of CUPTI's belongs to. Threads that launch work say whose it is by an id; what libraries
// launch from threads of their own has none, and is told by its place on its stream. A rank has one log, for the life of its GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <source_location>
#include <span>
#include <string_view>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::cuda {

class Gpu;

/// From the earliest start to the latest end of a piece's records, by the clock of the library that kept them.
struct ActivitySpan {
  std::int64_t start_ns = 0, end_ns = 0;
  std::size_t records = 0;  ///< with times
  std::size_t untimed = 0;  ///< the library could not tell when they ran
};

/// Ids of pieces are even. The odd one behind a piece's marks the place before it on its stream, and is no part of it; this one stands for
/// all that is no piece.
inline constexpr std::uint64_t no_piece = 1;
constexpr std::uint64_t place_before(std::uint64_t piece) { return piece + 1; }

/// By piece. A record without an id belongs to the piece whose own record, or place, is the last before it on its stream; to none behind
/// what is no piece. Records that start at the same time stand in their order on the stream.
std::map<std::uint64_t, ActivitySpan> spans_by_piece(std::span<const ActivityRecord> records);

class ActivityLog {
 public:
  /// What runs on the GPU is recorded from here on. Throws VendorError.
  ActivityLog(const ActivityTable& table, Gpu& gpu);
  /// The last of it. Errors go to Gpu::complain.
  ~ActivityLog();
  ActivityLog(const ActivityLog&) = delete;
  ActivityLog& operator=(const ActivityLog&) = delete;

  /// Of no other piece of this rank's.
  std::uint64_t next_piece() { return last_piece_ += 2; }

  /// What its thread launches while it lives is of this id; scopes of a thread end in reverse order. Without a log it does nothing.
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

  /// Of all that ran since it was asked last; whoever asks has waited for it. Throws VendorError; std::runtime_error when records were
  /// lost.
  std::map<std::uint64_t, ActivitySpan> take_spans();
  /// For what ran and is of no interest: it would be kept until somebody takes it. Errors go to Gpu::complain.
  void forget() noexcept;

 private:
  std::span<const ActivityRecord> flush(std::size_t& dropped);
  void check(Status status, std::string_view operation, std::source_location location = std::source_location::current()) const;

  const ActivityTable& table_;
  Gpu& gpu_;
  std::uint64_t last_piece_ = 0;
};

}  // namespace shardproof::cuda
