// In which order did the host issue what, and what must come before what? Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// The works and collectives of a trace, as indices of facts, with the happens-before relation between them: x before y when they are on
/// one stream in that order, or a chain of record and wait, or of host waits, leads from x to y. Transitively closed; nothing is before
/// itself. What one group's collectives share (a rank's share of a network) orders nothing here: engines may not rely on it.
class HappensBefore {
 public:
  explicit HappensBefore(const Trace& trace);
  /// Both are indices of facts that are Work or Collective; std::out_of_range otherwise.
  bool before(std::size_t x, std::size_t y) const;

 private:
  std::size_t row_of(std::size_t fact) const;

  static constexpr std::uint32_t neither = 0xFFFFFFFF;
  std::size_t agents_ = 0;                        ///< streams, and the host
  std::vector<std::uint32_t> rows_;               ///< per fact: its row below, or `neither`
  std::vector<std::uint32_t> agent_, position_;   ///< per row
  std::vector<std::uint32_t> clocks_;             ///< per row: how much of each agent precedes it, itself included
};

/// The collectives between two marks, in the order in which the host issued them. Throws std::out_of_range naming a mark that is not there.
std::vector<fact::Collective> collectives(const Trace& trace, std::string_view from_mark, std::string_view to_mark);

/// A collective or compute step as goldens and other engines' logs can say it too: no buffers, no times.
struct Step {
  std::string kind;  ///< `all_gather`, `reduce_scatter`, `forward`, `backward`, `optimizer`, …
  StreamRole role = StreamRole::compute;
  std::string label;  ///< of work: the module; empty for collectives
  std::uint64_t in_count = 0, out_count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::none;
  std::vector<int> group;
  std::string phase;  ///< the last mark before it
  std::string tag;  ///< of a collective: its parameter group. Records of other engines have none, so it is not compared
  friend bool operator==(const Step& a, const Step& b) {
    const auto compared = [](const Step& s) {
      return std::tie(s.kind, s.role, s.label, s.in_count, s.out_count, s.dtype, s.op, s.group, s.phase);
    };
    return compared(a) == compared(b);
  }
};

std::string to_string(const Step& step);

/// Steps in host order with the relation between them, row-major: before[i * n + j].
struct Structure {
  std::vector<Step> steps;
  std::vector<bool> before;
};

/// Collectives and those works whose kind is forward, backward or optimizer and for which `keep(kind, label)` holds.
Structure structure(const Trace& trace, bool (*keep)(WorkKind kind, std::string_view label));

/// Steps of which only one of two structures makes the later wait for the earlier.
struct Edge {
  std::size_t from = 0, to = 0;
  bool is_expected = false;  ///< the first one has it
};

/// The first edge that only one of them has, between steps that both have: the shortest, as those that follow from it are longer.
std::optional<Edge> different_edge(const Structure& expected, const Structure& actual);

/// The first difference in words, or empty: a step that differs, is missing or surplus; then an edge that only one of them has. Edges are
/// shown where they are shortest, not where they follow from others.
std::string difference(const Structure& expected, const Structure& actual);

}  // namespace shardproof::trace
