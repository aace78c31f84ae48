// The last accesses to the bytes of one buffer, as disjoint segments. Each segment keeps the accesses that a later
// access can still race with. Inner header of this room.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <vector>

#include "harness/trace/vector_clocks.hpp"

namespace shardproof::trace {

/// An access of one fact.
struct Touch {
  std::size_t fact = 0;
  VectorClocks::Moment moment;
  bool write = false;
  friend bool operator==(const Touch&, const Touch&) = default;
};

class ByteHistory {
 public:
  /// Enters an access, whose moment `clocks` took last. Calls `met(earlier, offset, length)` for each earlier access
  /// that conflicts with it and does not precede it, segment by segment in ascending order.
  template <class Met>
  void touch(std::uint64_t offset, std::uint64_t length, const Touch& touch, const VectorClocks& clocks, Met&& met) {
    const std::uint64_t end = length > std::numeric_limits<std::uint64_t>::max() - offset
                                  ? std::numeric_limits<std::uint64_t>::max()
                                  : offset + length;
    cut(end);
    auto segment = cut(offset);
    for (std::uint64_t at = offset; at < end; ++segment) {
      if (segment == segments_.end() || segment->first != at) {
        const std::uint64_t gap_end = segment == segments_.end() ? end : std::min(end, segment->first);
        segment = segments_.emplace_hint(segment, at, Segment{gap_end, {}});
      }
      meet(*segment, touch, clocks, met);
      segment->second.touches.push_back(touch);
      at = segment->second.end;
    }
    merge_equal(offset, end);
  }

  /// The same for all bytes touched so far, but does not enter the access: the caller enters no access after it.
  template <class Met>
  void touch_all(const Touch& touch, const VectorClocks& clocks, Met&& met) {
    for (auto& segment : segments_) meet(segment, touch, clocks, met);
    std::erase_if(segments_, [](const auto& segment) { return segment.second.touches.empty(); });
  }

 private:
  struct Segment {
    std::uint64_t end = 0;
    std::vector<Touch> touches;
  };
  using Segments = std::map<std::uint64_t, Segment>;  // by first byte

  // Forgets each earlier access that precedes this access and conflicts with nothing that this access does not conflict
  // with. An access that races with the forgotten one races with this access as well.
  template <class Met>
  static void meet(Segments::value_type& segment, const Touch& touch, const VectorClocks& clocks, Met& met) {
    std::erase_if(segment.second.touches, [&](const Touch& earlier) {
      if (clocks.precedes(earlier.moment)) return touch.write || !earlier.write;
      if (touch.write || earlier.write) met(earlier, segment.first, segment.second.end - segment.first);
      return false;
    });
  }

  // Splits the segment that reaches across `at`. Returns the first segment that begins at or after `at`.
  Segments::iterator cut(std::uint64_t at) {
    const auto next = segments_.lower_bound(at);
    if (next == segments_.begin()) return next;
    Segment& before = std::prev(next)->second;
    if (before.end <= at) return next;
    const auto second_half = segments_.emplace_hint(next, at, before);
    before.end = at;
    return second_half;
  }

  // Merges neighbours that have equal accesses again, so that their number follows the open ranges, not the past.
  void merge_equal(std::uint64_t offset, std::uint64_t end) {
    auto segment = segments_.lower_bound(offset);
    if (segment != segments_.begin()) --segment;
    for (auto next = std::next(segment); next != segments_.end() && segment->first < end; next = std::next(segment)) {
      if (segment->second.end == next->first && segment->second.touches == next->second.touches) {
        segment->second.end = next->second.end;
        segments_.erase(next);
      } else {
        segment = next;
      }
    }
  }

  Segments segments_;
};

}  // namespace shardproof::trace
