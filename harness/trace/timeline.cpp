#include "harness/trace/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "harness/trace/marks.hpp"
#include "harness/trace/order.hpp"

namespace shardproof::trace {

namespace {

constexpr std::uint32_t compute_stream = 0;

Nanoseconds time_of(const Trace& trace, std::string_view mark) {
  const std::size_t found = index_of_mark(trace, mark);
  for (std::size_t i = found + 1; i < trace.facts.size(); ++i) {
    const auto* again = std::get_if<fact::Mark>(&trace.facts[i]);
    if (again != nullptr && again->text == mark)
      throw std::out_of_range(fmt::format("mark \"{}\" is set twice in the trace of rank {}", mark, trace.rank));
  }
  return std::get<fact::Mark>(trace.facts[found]).time;
}

struct TimedFact {
  std::size_t fact;
  std::uint32_t stream;
  std::string_view kind, label;
  Nanoseconds start, end;
  const fact::Collective* collective;  // nullptr for work
};

std::optional<TimedFact> timed_fact(const Trace& trace, std::size_t index) {
  const Fact& fact = trace.facts[index];
  if (const auto* work = std::get_if<fact::Work>(&fact)) {
    return TimedFact{index, work->stream, to_string(work->kind), work->label, work->start, work->end, nullptr};
  }
  if (const auto* collective = std::get_if<fact::Collective>(&fact)) {
    return TimedFact{index,           collective->stream, to_string(collective->kind),
                     collective->tag, collective->start,  collective->end,
                     collective};
  }
  return std::nullopt;
}

// The timed_facts that are not empty, in host order.
std::vector<TimedFact> timed_facts(const Trace& trace) {
  std::vector<TimedFact> all;
  for (std::size_t index = 0; index < trace.facts.size(); ++index) {
    if (const auto found = timed_fact(trace, index); found && found->end > found->start) all.push_back(*found);
  }
  return all;
}

bool share_a_group(const TimedFact& a, const TimedFact& b) {
  return a.collective && b.collective && a.collective->group == b.collective->group;
}

}  // namespace

Nanoseconds between(const Trace& trace, std::string_view from_mark, std::string_view to_mark) {
  return time_of(trace, to_mark) - time_of(trace, from_mark);
}

Nanoseconds total(const Trace& trace) {
  Nanoseconds latest = 0;
  for (std::size_t index = 0; index < trace.facts.size(); ++index) {
    if (const auto found = timed_fact(trace, index)) latest = std::max(latest, found->end);
  }
  return latest;
}

Nanoseconds compute_busy(const Trace& trace, std::string_view from_mark, std::string_view to_mark) {
  const Nanoseconds from = time_of(trace, from_mark);
  const Nanoseconds to = time_of(trace, to_mark);
  std::vector<std::pair<Nanoseconds, Nanoseconds>> busy;
  for (const TimedFact& piece : timed_facts(trace)) {
    if (piece.stream == compute_stream && piece.collective == nullptr)
      busy.emplace_back(std::max(piece.start, from), std::min(piece.end, to));
  }
  std::ranges::sort(busy);
  Nanoseconds sum = 0;
  Nanoseconds counted_until = from;
  for (const auto& [start, end] : busy) {
    sum += std::max<Nanoseconds>(0, end - std::max(start, counted_until));
    counted_until = std::max(counted_until, end);
  }
  return sum;
}

Nanoseconds exposed(const Trace& trace, std::string_view from_mark, std::string_view to_mark) {
  return between(trace, from_mark, to_mark) - compute_busy(trace, from_mark, to_mark);
}

std::vector<CriticalStep> critical_path(const Trace& trace) {
  const std::vector<TimedFact> pieces = timed_facts(trace);
  if (pieces.empty()) return {};
  std::unordered_map<Nanoseconds, std::vector<const TimedFact*>> ending_at;
  for (const TimedFact& piece : pieces) ending_at[piece.end].push_back(&piece);
  const HappensBefore order(trace);

  // A predecessor ends when the piece starts. The best one must precede the piece, on its own stream if possible;
  // otherwise it is the group's previous collective.
  const auto predecessor = [&](const TimedFact& piece) -> const TimedFact* {
    const auto candidates = ending_at.find(piece.start);
    if (candidates == ending_at.end()) return nullptr;
    const TimedFact* best = nullptr;
    int best_rank = 0;
    for (const TimedFact* candidate : candidates->second) {
      if (candidate->fact >= piece.fact) continue;
      const bool ordered = order.before(candidate->fact, piece.fact);
      const int rank = ordered && candidate->stream == piece.stream ? 3
                       : ordered                                    ? 2
                       : share_a_group(*candidate, piece)           ? 1
                                                                    : 0;
      if (rank == 0 || rank < best_rank) continue;
      best = candidate;
      best_rank = rank;
    }
    return best;
  };

  std::vector<CriticalStep> path;
  const TimedFact* step = &*std::ranges::max_element(pieces, {}, &TimedFact::end);
  for (; step != nullptr; step = predecessor(*step)) {
    path.push_back({step->fact, fmt::format("{} {}", step->kind, step->label), step->start, step->end});
  }
  std::ranges::reverse(path);
  return path;
}

std::vector<Span> spans(const Trace& trace) {
  std::vector<Span> found;
  for (const TimedFact& piece : timed_facts(trace)) {
    found.push_back({piece.stream, std::string(piece.kind), std::string(piece.label), piece.start, piece.end,
                     piece.collective != nullptr});
  }
  std::ranges::stable_sort(found, {}, [](const Span& span) { return std::pair(span.stream, span.start); });
  return found;
}

}  // namespace shardproof::trace
