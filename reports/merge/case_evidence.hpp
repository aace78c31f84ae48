// Adds the failures and measurements of one rank to the result of a case. The Merger uses it. Pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "reports/merge/rank_stream.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

/// The number of failures that a report keeps of one case, the first ones in time.
inline constexpr std::size_t failures_kept = 200;

/// Moves the rank's failures into the result, unordered. `was_released`: the exception that released the rank is not a
/// failure.
void add_failures(CaseResult& result, StreamedCase& streamed, int rank, bool was_released);

/// Puts the failures in the order of time, and keeps the first ones.
void keep_first_failures(CaseResult& result);

/// Compares the measurements of ranks.
class MeasurementMerge {
 public:
  /// Adds the rank's measurements to the result. `has_passed`: the rank passed the case. Only such measurements have to
  /// be equal. Returns false, with a note in the result, if they differ from those of an earlier rank.
  bool add(CaseResult& result, const StreamedCase& streamed, int rank, bool has_passed, std::string_view device);

 private:
  int first_passed_ = -1;  ///< The rank that other ranks' measurements are compared with. -1: no rank passed yet.
};

}  // namespace shardproof::reports
