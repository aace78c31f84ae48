// Checks of refusals: an engine must refuse a wrong scenario on every rank alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/player/player.hpp"
#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// The error by which the subject refuses a scenario. Empty if it plays the scenario. All functions of this header add
/// the last module of the case's parameter to the scenario (last_module.hpp).
std::optional<player::SubjectError> refusal(Rank& rank, const Scenario& scenario);

/// Plays a scenario that every right subject plays. A refusal fails the case: it is a finding, and not an error.
/// Collectives that differ between ranks are a finding, too. The harness has a clause for them.
Run play_accepted(Rank& rank, const Scenario& scenario);

/// Fails unless the subject refuses the scenario in this call. The text must contain each of `culprits` and be the same
/// on every rank. The status of the reply must be `failed`. An `unsupported` reply is not a refusal, but shows that the
/// engine lacks a claimed feature.
void check_refused(Rank& rank, const Scenario& scenario, const std::string& call,
                   const std::vector<std::string>& culprits);

/// The same for a plan that an engine does not have to know: the reply may also be `unsupported`.
void check_refused_or_unsupported(Rank& rank, const Scenario& scenario, const std::string& call,
                                  const std::vector<std::string>& culprits);

}  // namespace shardproof::suites
