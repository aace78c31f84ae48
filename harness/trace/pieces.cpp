#include "harness/trace/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <utility>

#include "harness/trace/virtual_clock.hpp"

namespace shardproof::trace {

std::string to_string(const Piece& piece) {
  const std::string_view kind = std::visit([](auto which) { return shardproof::to_string(which); }, piece.kind);
  const std::string number = piece.occurrence > 1 ? fmt::format(" ({})", piece.occurrence) : "";
  return fmt::format("{} \"{}\"{}", kind, piece.label, number);
}

Piece PieceCounter::next(std::variant<WorkKind, CollectiveKind> kind, std::string_view label) {
  return {.kind = kind, .label = std::string(label), .occurrence = ++seen_[{kind, std::string(label)}]};
}

std::vector<std::optional<Piece>> pieces(const Trace& trace) {
  std::vector<std::optional<Piece>> all;
  all.reserve(trace.facts.size());
  PieceCounter counter;
  for (const Fact& fact : trace.facts) {
    auto& piece = all.emplace_back();
    if (const auto* work = std::get_if<fact::Work>(&fact)) piece = counter.next(work->kind, work->label);
    if (const auto* call = std::get_if<fact::Collective>(&fact)) piece = counter.next(call->kind, call->tag);
  }
  return all;
}

std::vector<std::string> issued(const Trace& trace) {
  std::vector<std::string> all;
  for (const std::optional<Piece>& piece : pieces(trace)) {
    if (piece) all.push_back(to_string(*piece));
  }
  return all;
}

namespace {

// Times the trace as if every other rank were as far as this rank.
Trace timed(const Trace& trace, const std::function<Nanoseconds(std::size_t fact)>& duration, Resource resource) {
  const auto occupied = [&](std::size_t fact) {
    const auto& call = std::get<fact::Collective>(trace.facts[fact]);
    return std::pair(call.group, resource == Resource::of_group_and_kind ? std::optional(call.kind) : std::nullopt);
  };
  std::map<decltype(occupied(0)), std::uint64_t> numbers;
  return retimed(
      trace,
      {.duration = duration,
       .resource = [&](std::size_t fact) { return numbers.try_emplace(occupied(fact), numbers.size()).first->second; },
       .all_ready = [](std::size_t, Nanoseconds ready) { return ready; }});
}

// The times of work or a collective; zero for other facts.
VirtualClock::Times times(const Fact& fact) {
  return std::visit(
      [](const auto& which) -> VirtualClock::Times {
        if constexpr (requires { which.start; }) return {which.start, which.end};
        return {};
      },
      fact);
}

}  // namespace

bool can_pass(const Trace& trace, const Piece& held, const Piece& passes, Resource resource) {
  const std::vector<std::optional<Piece>> all = pieces(trace);
  const auto at = [&](const Piece& piece) {
    const auto found = std::ranges::find(all, std::optional(piece));
    if (found == all.end())
      throw std::out_of_range(fmt::format("{} is not in the trace of rank {}", to_string(piece), trace.rank));
    return static_cast<std::size_t>(found - all.begin());
  };
  // Only the held piece takes time, so a piece that ends late has waited for it.
  const std::size_t held_at = at(held), passes_at = at(passes);
  const Trace waiting = timed(trace, [&](std::size_t fact) { return fact == held_at ? 1 : 0; }, resource);
  return times(waiting.facts[passes_at]).end == 0;
}

Durations shortest(std::span<const Trace> traces) {
  Durations durations;
  for (const Trace& trace : traces) {
    const std::vector<std::optional<Piece>> all = pieces(trace);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i]) continue;
      const auto [start, end] = times(trace.facts[i]);
      const auto [known, is_new] = durations.try_emplace(*all[i], end - start);
      if (!is_new) known->second = std::min(known->second, end - start);
    }
  }
  return durations;
}

Trace expected(const Trace& trace, const Durations& durations, Resource resource) {
  const std::vector<std::optional<Piece>> all = pieces(trace);
  const auto duration = [&](std::size_t fact) {
    const auto found = durations.find(*all[fact]);
    if (found == durations.end()) throw std::out_of_range(fmt::format("{} has no duration", to_string(*all[fact])));
    return found->second;
  };
  return timed(trace, duration, resource);
}

}  // namespace shardproof::trace
