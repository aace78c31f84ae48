// Which accesses to the same bytes nothing orders? Vector clocks over the streams, the events and the host of one rank's facts. Pure.
#pragma once

#include <string>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// One side of a race. `fact` is an index into the trace.
struct Access {
  std::size_t fact = 0;
  std::string what;    ///< `all_gather "layers.1" on stream all_gather (10 ms..20 ms)`
  bool write = false;
};

/// Two accesses to common bytes, at least one a write, that no event, stream order or host wait orders; or a use of memory after a release
/// that does not come before the release (`after_release`).
struct Race {
  Access first, second;  ///< in host order
  ByteRange bytes;       ///< the common part
  std::string buffer;    ///< class and label of the buffer
  bool after_release = false;
};

/// At most `limit` races, in host order of the second access; one per pair of facts.
/// Cost grows with facts and open ranges, not with their product: 100 000 pieces of work take less than half a second.
std::vector<Race> find_races(const Trace& trace, std::size_t limit = 16);

/// Two indented lines and the missing edge, as failures show it. The rank is the trace's.
std::string describe(const Race& race, int rank);

}  // namespace shardproof::trace
