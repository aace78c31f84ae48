// Finds races: accesses to the same bytes that nothing orders. It uses vector clocks over the streams, the events and
// the host of one rank's facts. Pure.
//
// The room `trace` has analyses of recorded facts. All are pure: no I/O, clock or device may enter.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// One side of a race. `fact` is an index into the trace.
struct Access {
  std::size_t fact = 0;
  std::string what;       ///< `all_gather "layers.1" on stream all_gather (10 ms..20 ms)`
  std::string stream;     ///< its name; empty for the host
  bool write = false;
  bool releases = false;  ///< it gives the memory back
  bool takes = false;  ///< an allocation that may take over memory that was released before
};

/// Two accesses to common bytes, at least one a write, that no event, stream order or host wait orders.
///
/// An allocation writes all of its buffer, at its place on its stream, and so does a release. A use that the host
/// issues after a release always races with it. A release to a cache writes nothing itself. Instead, the next adoption
/// on the same stream writes the memory, because it may get this memory. PyTorch's caching allocator works like this.
///
/// If several earlier accesses race with a later one, the search leaves out those that precede another of them. A fix
/// of the last one fixes them, too.
struct Race {
  Access first, second;  ///< in host order
  ByteRange bytes;  ///< the common part, or the first of several
  std::string buffer;  ///< class and label of the buffer: `gathered layers.1`
};

/// At most `limit` races, in host order of the second access; one per pair of facts.
/// Cost grows with facts and open ranges, not with their product: 100 000 pieces of work take less than half a second.
std::vector<Race> find_races(const Trace& trace, std::size_t limit = 16);

/// The two accesses and the missing edge, a line each; no newline at the end.
std::string describe(const Race& race);

/// The edge that would order the two: `stream compute waits for an event recorded on stream all_gather after the
/// first`. Races that lack the same edge have one cause.
std::string missing(const Race& race);

/// The first three races, and how many more there are: the rest mostly follow from the same edge.
std::vector<std::string> describe(const std::vector<Race>& races);

}  // namespace shardproof::trace
