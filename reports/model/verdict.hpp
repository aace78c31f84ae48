// The verdict of a case, from the outcomes of all its ranks. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
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
  Outcome outcome = Outcome::missing;
  std::uint64_t assertions = 0;
  friend bool operator==(const RankOutcome&, const RankOutcome&) = default;
};

/// Decides a case's verdict. A rank *began* the case if it passed, failed, had an error or was released. A rank *ended
/// it itself* if it passed, failed or had an error. The verdict is the first that applies:
///   - crashed: some rank crashed.
///   - hung: some rank hung.
///   - disagreed: some rank has no evidence of the case while another began it, or some rank skipped it while another
///     ended it itself.
///   - failed: some rank failed.
///   - error: some rank had an error, or passed without an assertion. Or some rank was released although no other rank
///     failed, had an error, hung, crashed or skipped: a release without a culprit explains nothing.
///   - not_run: some rank has no evidence (so no rank began the case), or there is no rank at all.
///   - skipped: some rank skipped. The others skipped too, or were released by it.
///   - passed: every rank passed, each with at least one assertion.
Verdict decide(std::span<const RankOutcome> ranks);

}  // namespace shardproof::reports
