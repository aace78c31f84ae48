// Shows where the time went: phases, busy and exposed time, the critical path. Pure arithmetic on recorded facts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// The time between two marks, read on the compute stream. Throws std::out_of_range naming a mark that is missing or
/// set twice; so do all functions that take marks.
Nanoseconds between(const Trace& trace, std::string_view from_mark, std::string_view to_mark);

/// The latest end over all streams.
Nanoseconds total(const Trace& trace);

/// Length of the union of the spans of work (collectives are not work) on the compute stream, between two marks.
Nanoseconds compute_busy(const Trace& trace, std::string_view from_mark, std::string_view to_mark);

/// A phase's time minus the compute stream's busy time in it: the cost of communication, and of waiting for it.
Nanoseconds exposed(const Trace& trace, std::string_view from_mark, std::string_view to_mark);

/// One step of the critical path: a chain of work that no faster device could shorten without shortening a step. A step
/// starts when its predecessor ends. The chain leads to the latest end. It begins where nothing on this rank held a
/// step back: at time zero, or where the host or another rank came late.
struct CriticalStep {
  std::size_t fact;
  std::string label;  ///< kind and label: `forward layers.1`
  Nanoseconds start, end;
};
std::vector<CriticalStep> critical_path(const Trace& trace);

/// Spans that are not empty, by stream and then by start: for drawings and exports.
struct Span {
  std::uint32_t stream;
  std::string kind, label;  ///< of a collective: its tag
  Nanoseconds start, end;
  bool collective;
};
std::vector<Span> spans(const Trace& trace);

}  // namespace shardproof::trace
