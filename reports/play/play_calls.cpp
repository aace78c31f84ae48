#include "reports/play/play_calls.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "harness/protocol/call_mark.hpp"

namespace shardproof::reports {

std::vector<CallTimes> call_times(const Trace& trace) {
  std::vector<CallTimes> calls;
  std::optional<CallTimes> open;
  std::size_t collectives = 0;
  for (const Fact& fact : trace.facts) {
    if (std::holds_alternative<fact::Collective>(fact)) ++collectives;
    const auto* const set = std::get_if<fact::Mark>(&fact);
    std::optional<protocol::CallMark> mark = set != nullptr ? protocol::read_call_mark(set->text) : std::nullopt;
    if (!mark) continue;
    if (!mark->is_end) {
      open = CallTimes{.iteration = mark->iteration,
                       .call = std::move(mark->call),
                       .number = mark->occurrence,
                       .start = set->time,
                       .first_collective = collectives};
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
