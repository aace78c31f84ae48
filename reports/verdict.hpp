// One verdict per case from what all its ranks say and how their processes ended. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "harness/protocol/events.hpp"

namespace shardproof::reports {

/// Strongest last; a case gets the strongest that applies.
enum class Verdict : std::uint8_t { passed, skipped, not_run, error, failed, disagreed, hung, crashed };

std::string_view to_string(Verdict verdict);

/// What one rank contributes to the verdict of one case.
struct RankOutcome {
  Outcome outcome = Outcome::missing;
  std::uint64_t assertions = 0;
};

/// Passes only if every rank passed and made at least one assertion; a rank that passed with none counts as an error. `disagreed`: some
/// ranks skipped or never got the case while others ran it; never that one failed and another passed. No rank at all is not_run.
Verdict decide(std::span<const RankOutcome> ranks);

}  // namespace shardproof::reports
