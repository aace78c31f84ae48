// Verdict is the result of a case. `merge/outcome_rules.hpp` decides it from the outcomes of all ranks. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/protocol/events.hpp"

namespace shardproof::reports {

/// The strongest verdict is last. A case gets the strongest that applies.
enum class Verdict : std::uint8_t { passed, skipped, not_run, error, failed, disagreed, hung, crashed };

inline constexpr std::array<Verdict, 8> all_verdicts{Verdict::passed, Verdict::skipped, Verdict::not_run,
                                                     Verdict::error,  Verdict::failed,  Verdict::disagreed,
                                                     Verdict::hung,   Verdict::crashed};

std::string_view to_string(Verdict verdict);
std::optional<Verdict> verdict_from_string(std::string_view text);

/// Whether a case is neither passed nor skipped: a user has to look at it.
constexpr bool is_bad(Verdict verdict) { return verdict > Verdict::skipped; }

/// One rank's contribution to a case's verdict.
struct RankOutcome {
  protocol::Outcome outcome = protocol::Outcome::missing;
  std::uint64_t assertions = 0;
  friend bool operator==(const RankOutcome&, const RankOutcome&) = default;
};

}  // namespace shardproof::reports
