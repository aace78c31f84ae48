// The calls of a script on one rank, with their times on the compute stream, from the marks of a trace. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::reports {

struct CallTimes {
  int iteration = 0;
  std::string call;  ///< `forward`, `failing forward`, …
  int number = 1;  ///< of this call in the iteration, from 1
  Nanoseconds start = 0, end = 0;
  /// The collectives that the host issued in this call: `[first_collective, end_collective)`. They are indices into the
  /// rank's list of collectives.
  std::size_t first_collective = 0, end_collective = 0;

  Nanoseconds time() const { return end - start; }
  friend bool operator==(const CallTimes&, const CallTimes&) = default;
};

/// In the order in which the host made the calls. A call without its second mark is left out: it did not end.
std::vector<CallTimes> call_times(const Trace& trace);

/// The times of all calls of this name in an iteration.
std::vector<Nanoseconds> times_of(const std::vector<CallTimes>& calls, int iteration, const std::string& call);

/// When the compute stream had finished the last call. 0: the trace has no call.
Nanoseconds compute_end(const std::vector<CallTimes>& calls);

}  // namespace shardproof::reports
