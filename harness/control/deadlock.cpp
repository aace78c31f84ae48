#include "harness/control/deadlock.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>

#include "harness/base/rank_list.hpp"

namespace shardproof::control {

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
