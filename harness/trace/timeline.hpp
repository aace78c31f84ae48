// Where did the time go? Phases, busy and exposed time, the critical path. Pure arithmetic on recorded facts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// Between two marks, read on the compute stream. Throws std::out_of_range naming a mark that is not there (marks are unique in a trace).
Nanoseconds between(const Trace& trace, std::string_view from_mark, std::string_view to_mark);

/// The latest end over all streams.
Nanoseconds total(const Trace& trace);

/// Length of the union of the spans of work (collectives are not work) on the compute stream, between two marks.
Nanoseconds compute_busy(const Trace& trace, std::string_view from_mark, std::string_view to_mark);

/// A phase's time minus the compute stream's busy time in it: what communication, and waiting for it, cost.
Nanoseconds exposed(const Trace& trace, std::string_view from_mark, std::string_view to_mark);

/// One step of the chain of work that no faster device could shorten without shortening a member: it starts when its predecessor ends.
struct CriticalStep { std::size_t fact; std::string label; Nanoseconds start, end; };
std::vector<CriticalStep> critical_path(const Trace& trace);

/// Spans of one stream that are not empty, in order: for drawings and exports.
struct Span { std::uint32_t stream; std::string kind; std::string label; Nanoseconds start, end; bool collective; };
std::vector<Span> spans(const Trace& trace);

}  // namespace shardproof::trace
