// One verdict per case from what all its ranks say and how their processes ended. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/protocol/events.hpp"

namespace shardproof::reports {

/// Strongest last; a case gets the strongest that applies.
enum class Verdict : std::uint8_t { passed, skipped, not_run, error, failed, disagreed, hung, crashed };

inline constexpr std::array<Verdict, 8> all_verdicts{Verdict::passed, Verdict::skipped,   Verdict::not_run, Verdict::error,
                                                     Verdict::failed, Verdict::disagreed, Verdict::hung,    Verdict::crashed};

std::string_view to_string(Verdict verdict);
std::optional<Verdict> verdict_from_string(std::string_view text);

/// Neither passed nor skipped: something that somebody has to look at.
constexpr bool is_bad(Verdict verdict) { return verdict > Verdict::skipped; }

/// What one rank contributes to the verdict of one case.
struct RankOutcome {
  Outcome outcome = Outcome::missing;
  std::uint64_t assertions = 0;
  friend bool operator==(const RankOutcome&, const RankOutcome&) = default;
};

/// A rank *began* the case if it passed, failed, had an error or was released; it *ended it itself* if it was not merely released.
/// The first line that applies:
///   crashed    some rank crashed
///   hung       some rank hung
///   disagreed  some rank has no evidence of the case while another began it, or some rank skipped it while another ended it itself
///   failed     some rank failed
///   error      some rank had an error, or passed without an assertion, or was released although no other rank failed, had an error,
///              hung, crashed or skipped: a release without a culprit explains nothing
///   not_run    some rank has no evidence (and so nobody began it), or there is no rank at all
///   skipped    some rank skipped (the others skipped too, or were released by it)
///   passed     every rank passed, each with at least one assertion
Verdict decide(std::span<const RankOutcome> ranks);

}  // namespace shardproof::reports
