// What an engine must refuse it must refuse on every rank alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/player/player.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::suites {

/// What the subject says against a scenario; nothing when it plays it. All functions of this header play the scenario with the last module
/// that the case asks for (last_module.hpp).
std::optional<scenario::SubjectError> refusal(Rank& rank, const scenario::Scenario& scenario);

/// Plays what every right subject plays. A refusal fails the case: it is a finding, and no error. So are collectives that differ between
/// ranks, for which the harness has a clause.
scenario::Run play_accepted(Rank& rank, const scenario::Scenario& scenario);

/// Fails unless the subject refuses the scenario in this call, with a text that contains each of `culprits` and is the same on every rank.
/// The status of the reply is `failed`: an `unsupported` reply is no refusal, but shows that the engine lacks what it claims.
void check_refused(Rank& rank, const scenario::Scenario& scenario, const std::string& call, const std::vector<std::string>& culprits);

/// The same for a plan that no engine has to know: the reply may also be `unsupported`.
void check_refused_or_unsupported(Rank& rank, const scenario::Scenario& scenario, const std::string& call,
                                  const std::vector<std::string>& culprits);

}  // namespace shardproof::suites
