#include "harness/device/cuda/piece_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "harness/device/device.hpp"
#include "harness/trace/virtual_clock.hpp"

namespace shardproof::device::cuda {

namespace {

void set_times(Trace& trace, const TimedPiece& piece, Nanoseconds start, Nanoseconds end) {
  for (std::size_t fact = piece.fact; fact < piece.fact + piece.facts; ++fact) {
    std::visit(
        [&](auto& which) {
          if constexpr (requires { which.start; }) {
            which.start = start;
            which.end = end;
          }
        },
        trace.facts[fact]);
  }
}

[[noreturn]] void fail_incomplete(const Gpu& gpu, const Fact& fact, const TimedPiece& piece,
                                  const ActivitySpan& recorded) {
  const auto* const work = std::get_if<fact::Work>(&fact);
  const auto* const call = std::get_if<fact::Collective>(&fact);
  throw std::runtime_error(
      fmt::format("CUPTI on rank {}, {}: of {} \"{}\", which launched at least {}, it has {} records with times and "
                  "{} without; take times from events (--times events)",
                  gpu.rank(), gpu.name(), work != nullptr ? to_string(work->kind) : to_string(call->kind),
                  work != nullptr ? work->label : call->tag, piece.launches, recorded.records, recorded.untimed));
}

}  // namespace

Trace at_virtual_times(const Trace& trace, std::span<const TimedPiece> pieces, const DeviceOptions& options) {
  std::unordered_map<std::size_t, const TimedPiece*> by_fact;
  for (const TimedPiece& piece : pieces) {
    for (std::size_t fact = piece.fact; fact < piece.fact + piece.facts; ++fact) by_fact.emplace(fact, &piece);
  }
  // Imagined collectives have no group; they have their own resource.
  const auto resource = [&](std::size_t fact) {
    const CollectiveKind kind = std::get<fact::Collective>(trace.facts[fact]).kind;
    return std::pair(by_fact.at(fact)->group.get(), options.separate_resources ? std::optional(kind) : std::nullopt);
  };
  std::map<decltype(resource(0)), std::uint64_t> numbers;
  const auto all_ready = [&](std::size_t fact, Nanoseconds ready) {
    const NcclGroup* const group = by_fact.at(fact)->group.get();
    if (group == nullptr) return ready;
    Call call;  // a barrier
    call.descriptor.set_tag("virtual time");
    call.descriptor.ready_ns = ready;
    return group->hosts().run(call).latest_ready_ns;
  };
  return trace::retimed(
      trace,
      {.duration = [&](std::size_t fact) { return by_fact.at(fact)->cost; },
       .resource = [&](std::size_t fact) { return numbers.try_emplace(resource(fact), numbers.size()).first->second; },
       .all_ready = all_ready});
}

Nanoseconds PieceTimes::time_of(EventHandle event) const {
  Nanoseconds time = 0;
  gpu_.check(gpu_.cuda().event_elapsed_ns(&time, origin_, event), "cudaEventElapsedTime");
  return time;
}

// The time of a mark is the end of everything that the compute stream had been given by then, waits included.
Trace PieceTimes::with_marks(Trace trace) const {
  constexpr std::uint32_t compute = Device::compute.id;
  Nanoseconds end = 0;
  for (Fact& fact : trace.facts) {
    if (const auto* work = std::get_if<fact::Work>(&fact); work != nullptr && work->stream == compute) end = work->end;
    if (const auto* call = std::get_if<fact::Collective>(&fact); call != nullptr && call->stream == compute)
      end = call->end;
    if (const auto* waited = std::get_if<fact::EventWaited>(&fact); waited != nullptr && waited->stream == compute) {
      end = std::max(end, time_of(recorded_[waited->event - 1]));
    }
    if (auto* mark = std::get_if<fact::Mark>(&fact)) mark->time = end;
  }
  return trace;
}

Trace PieceTimes::by_events(Trace trace) const {
  for (const TimedPiece& piece : pieces_) {
    const Span span = by_events(piece);
    set_times(trace, piece, span.start, span.end);
  }
  return with_marks(std::move(trace));
}

// The memset ran at an unknown time between its events. The best guess is the middle.
Trace PieceTimes::by_records(Trace trace, const ClockSign& sign, RecordedTimes& about) const {
  const std::map<std::uint64_t, ActivitySpan> spans = gpu_.activity()->take_spans();
  const auto memset = spans.find(sign.piece);
  if (memset == spans.end() || memset->second.records != 1) {
    throw std::runtime_error(
        fmt::format("CUPTI on rank {}, {}: a memset that has ended has no record, so other records may be missing; "
                    "take times from events (--times events)",
                    gpu_.rank(), gpu_.name()));
  }
  const Nanoseconds before = time_of(sign.before);
  const Nanoseconds slack = time_of(sign.after) - before - (memset->second.end_ns - memset->second.start_ns);
  const Nanoseconds offset = before + slack / 2 - memset->second.start_ns;
  about = {.alignment_error = (std::abs(slack) + 1) / 2};

  for (const TimedPiece& piece : pieces_) {
    const Span events = by_events(piece);
    const auto found = spans.find(piece.piece);
    const ActivitySpan recorded = found == spans.end() ? ActivitySpan{} : found->second;
    if (recorded.records < piece.launches || recorded.untimed > 0)
      fail_incomplete(gpu_, trace.facts[piece.fact], piece, recorded);
    if (recorded.records == 0) {
      set_times(trace, piece, events.start, events.end);
      continue;
    }
    const Span span{recorded.start_ns + offset, recorded.end_ns + offset};
    set_times(trace, piece, span.start, span.end);
    ++about.pieces;
    about.beyond_events = std::max({about.beyond_events, events.start - span.start, span.end - events.end});
  }
  return with_marks(std::move(trace));
}

}  // namespace shardproof::device::cuda
