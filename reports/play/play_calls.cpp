#include "reports/play/play_calls.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <variant>

namespace shardproof::reports {

namespace {

/// A mark of a player: `iter 0 forward (2) end`.
struct CallMark {
  CallTimes call;
  bool is_end = false;
};

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take_end(std::string_view& text, std::string_view ending) {
  if (!text.ends_with(ending)) return false;
  text.remove_suffix(ending.size());
  return true;
}

std::optional<CallMark> read_mark(std::string_view text) {
  constexpr std::string_view prefix = "iter ";
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  const auto iteration = take_number(text);
  if (!iteration || !text.starts_with(' ')) return std::nullopt;
  text.remove_prefix(1);
  CallMark mark{.call = {.iteration = *iteration, .call = {}}, .is_end = take_end(text, " end")};
  const std::size_t open = text.rfind(" (");
  if (open != std::string_view::npos && text.ends_with(')')) {
    std::string_view number = text.substr(open + 2);
    mark.call.number = take_number(number).value_or(1);
    text = text.substr(0, open);
  }
  mark.call.call = text;
  return mark;
}

}  // namespace

std::vector<CallTimes> call_times(const Trace& trace) {
  std::vector<CallTimes> calls;
  std::optional<CallTimes> open;
  std::size_t collectives = 0;
  for (const Fact& fact : trace.facts) {
    if (std::holds_alternative<fact::Collective>(fact)) ++collectives;
    const auto* const set = std::get_if<fact::Mark>(&fact);
    std::optional<CallMark> mark = set != nullptr ? read_mark(set->text) : std::nullopt;
    if (!mark) continue;
    if (!mark->is_end) {
      open = std::move(mark->call);
      open->start = set->time;
      open->first_collective = collectives;
    } else if (open) {
      open->end = set->time;
      open->end_collective = collectives;
      calls.push_back(*std::move(open));
      open.reset();
    }
  }
  return calls;
}

std::vector<Nanoseconds> times_of(const std::vector<CallTimes>& calls, int iteration, const std::string& call) {
  std::vector<Nanoseconds> times;
  for (const CallTimes& each : calls) {
    if (each.iteration == iteration && each.call == call) times.push_back(each.time());
  }
  return times;
}

Nanoseconds compute_end(const std::vector<CallTimes>& calls) {
  return calls.empty() ? 0 : std::ranges::max(calls, {}, &CallTimes::end).end;
}

}  // namespace shardproof::reports
