// The order of a trace: in which order the host issued what, and what must come before what. Pure.
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

/// The happens-before relation between the works and collectives of a trace, as indices of facts. x is before y if
/// - both are on one stream in that order, or
/// - a chain of record and wait, or of host waits, leads from x to y.
///
/// The relation is transitively closed; no fact is before itself. The resource that a group's collectives share (a
/// rank's share of a network) orders nothing here: engines may not rely on it.
class HappensBefore {
 public:
  explicit HappensBefore(const Trace& trace);
  /// Both are indices of facts that are Work or Collective. Throws std::out_of_range otherwise.
  bool before(std::size_t x, std::size_t y) const;

 private:
  std::size_t row_of(std::size_t fact) const;

  static constexpr std::uint32_t neither = 0xFFFFFFFF;
  std::size_t agents_ = 0;                        ///< streams, and the host
  std::vector<std::uint32_t> rows_;               ///< per fact: its row below, or `neither`
  std::vector<std::uint32_t> agent_, position_;   ///< per row
  std::vector<std::uint32_t> clocks_;             ///< per row: how much of each agent precedes it, itself included
};

/// The collectives between two marks, in the order in which the host issued them. Throws std::out_of_range naming a
/// mark that is missing.
std::vector<fact::Collective> collectives(const Trace& trace, std::string_view from_mark, std::string_view to_mark);

/// A collective or compute step, in a form that goldens and other engines' logs also have: no buffers, no times.
struct Step {
  std::string kind;  ///< `all_gather`, `reduce_scatter`, `forward`, `backward`, `optimizer`, …
  StreamRole role = StreamRole::compute;
  std::string label;  ///< of work: the module; empty for collectives
  std::uint64_t in_count = 0, out_count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::none;
  std::vector<int> group;
  std::string phase;  ///< the last mark before it
  /// Its parameter group, for a collective. Not compared, because records of other engines have no tags.
  std::string tag;
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

/// Two steps, where only one of two structures makes the later step wait for the earlier.
struct Edge {
  std::size_t from = 0, to = 0;
  bool is_expected = false;  ///< the first structure has the edge
};

/// The first edge that only one of them has, between steps that both have. It is the shortest, because edges that
/// follow from it are longer.
std::optional<Edge> different_edge(const Structure& expected, const Structure& actual);

/// The first difference in words, or empty. First come steps that differ, are missing or surplus; then an edge that
/// only one structure has. The text shows the shortest edge, not edges that follow from others.
std::string difference(const Structure& expected, const Structure& actual);

}  // namespace shardproof::trace
