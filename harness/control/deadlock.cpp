#include "harness/control/deadlock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "harness/base/rank_list.hpp"

namespace shardproof::control {

bool has_left(const protocol::FlightRecord& record) {
  return !record.entries.empty() && record.entries.back().what == protocol::FlightEntry::What::left;
}

bool is_unchanged(const protocol::FlightRecord& first, const protocol::FlightRecord& second) {
  if (first.is_writing || second.is_writing || first.begun != second.begun) return false;
  return std::ranges::equal(first.entries, second.entries, [](const auto& a, const auto& b) {
    return a.what == b.what && a.state == b.state && a.place == b.place && a.group == b.group &&
           a.meetings == b.meetings && a.call.sequence == b.call.sequence;
  });
}

std::optional<std::uint32_t> epoch_of_deadlock(const std::vector<protocol::FlightRecord>& records) {
  const std::vector<protocol::PeerWait> waits = protocol::waits(records);
  std::optional<std::uint32_t> epoch;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (has_left(records[rank])) continue;
    const auto wait = std::ranges::find(waits, static_cast<int>(rank), &protocol::PeerWait::rank);
    if (wait == waits.end() || !wait->is_for_others() || wait->is_of_unknown) return std::nullopt;
    if (wait->entry->what != protocol::FlightEntry::What::call) continue;
    epoch = std::max(epoch.value_or(0), static_cast<std::uint32_t>(wait->entry->place));
  }
  return epoch;
}

Abort deadlock_of(const std::vector<protocol::FlightRecord>& records) {
  std::string where;
  int culprit = -1;
  for (const protocol::PeerWait& wait : protocol::waits(records)) {
    const bool in_agreement = wait.entry->what == protocol::FlightEntry::What::agreement;
    if (!in_agreement && culprit < 0) culprit = wait.rank;
    fmt::format_to(std::back_inserter(where), "{} rank {} in {}", where.empty() ? "" : ",", wait.rank,
                   in_agreement ? "the agreement between cases"
                                : protocol::describe(*wait.entry, records[static_cast<std::size_t>(wait.rank)]));
    if (!in_agreement && !wait.missing.empty())
      fmt::format_to(std::back_inserter(where), " for {}", base::rank_list(wait.missing));
  }
  return {culprit, AbortReason::deadlock, "every rank waits and no rank can continue:" + where};
}

}  // namespace shardproof::control
