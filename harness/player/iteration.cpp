#include "harness/player/iteration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <variant>

#include "harness/protocol/call_mark.hpp"
#include "harness/trace/order.hpp"
#include "harness/trace/timeline.hpp"

namespace shardproof {

namespace {

// The iteration that a mark of the player belongs to; nothing for a mark of another writer.
std::optional<std::size_t> iteration_of(const Fact& fact) {
  const auto* const set = std::get_if<fact::Mark>(&fact);
  const auto call = set != nullptr ? protocol::read_call_mark(set->text) : std::nullopt;
  return call ? std::optional(static_cast<std::size_t>(call->iteration)) : std::nullopt;
}

std::size_t count_of(const std::vector<fact::Collective>& collectives, CollectiveKind kind) {
  return static_cast<std::size_t>(std::ranges::count(collectives, kind, &fact::Collective::kind));
}

}  // namespace

std::string mark(int iteration, std::string_view call, bool end, int occurrence) {
  return protocol::to_text(
      {.iteration = iteration, .call = std::string(call), .occurrence = occurrence, .is_end = end});
}

std::string mark(int iteration, ActionKind action, bool end, int occurrence) {
  return mark(iteration, to_string(action), end, occurrence);
}

std::string_view Iteration::first_mark() const {
  if (facts_.empty())
    throw std::out_of_range(fmt::format("no mark of iteration {} in the trace of rank {}", index_, trace_->rank));
  return std::get<fact::Mark>(facts_.front()).text;
}

std::string_view Iteration::last_mark() const {
  const std::string_view first = first_mark();
  return facts_.size() == 1 ? first : std::get<fact::Mark>(facts_.back()).text;
}

Nanoseconds Iteration::time() const { return trace::between(*trace_, first_mark(), last_mark()); }

Nanoseconds Iteration::forward() const {
  return trace::between(*trace_, mark(index_, ActionKind::forward), mark(index_, ActionKind::forward, true));
}

Nanoseconds Iteration::forward_backward() const {
  return trace::between(*trace_, mark(index_, ActionKind::forward), mark(index_, ActionKind::backward, true));
}

Nanoseconds Iteration::exposed() const {
  return trace::exposed(*trace_, mark(index_, ActionKind::forward), mark(index_, ActionKind::backward, true));
}

std::vector<fact::Collective> Iteration::collectives() const {
  return trace::collectives(*trace_, first_mark(), last_mark());
}

std::vector<fact::Collective> Iteration::collectives(ActionKind call) const {
  return trace::collectives(*trace_, mark(index_, call), mark(index_, call, true));
}

std::size_t Iteration::count(CollectiveKind kind) const { return count_of(collectives(), kind); }

std::size_t Iteration::count(CollectiveKind kind, ActionKind call) const { return count_of(collectives(call), kind); }

trace::Live Iteration::live_before(MemoryClass memory, ActionKind call) const {
  return trace::at(*trace_, memory, mark(index_, call));
}

trace::Live Iteration::live_after(MemoryClass memory, ActionKind call) const {
  return trace::at(*trace_, memory, mark(index_, call, true));
}

trace::Live Iteration::peak(MemoryClass memory) const {
  return trace::peak(*trace_, memory, first_mark(), last_mark());
}

std::vector<Iteration> iterations(const Trace& trace, const Script& script) {
  struct Range {
    std::size_t begin = 0, end = 0;  // of facts
  };
  std::size_t count = 0;
  for (const Script::Segment& segment : script.segments)
    count += static_cast<std::size_t>(std::max(0, segment.iterations));
  std::vector<Range> ranges(count);
  for (std::size_t i = 0; i < trace.facts.size(); ++i) {
    const auto index = iteration_of(trace.facts[i]);
    if (!index || *index >= count) continue;
    Range& range = ranges[*index];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
  std::vector<Iteration> all;
  const std::span<const Fact> facts(trace.facts);
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back(trace, static_cast<int>(i), facts.subspan(ranges[i].begin, ranges[i].end - ranges[i].begin));
  }
  return all;
}

}  // namespace shardproof
