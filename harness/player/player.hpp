// Plays a scenario: builds the subject's trainer on a platform, makes the script's calls, takes the facts away.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "harness/device/platform.hpp"
#include "harness/player/run.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof::scenario {

/// A call of the subject answered with an error, or with less than it has to. The text names the call, the iteration and the rank.
class SubjectError : public std::runtime_error {
 public:
  /// Without an iteration: before the first one.
  SubjectError(std::string call, std::optional<int> iteration, int rank, std::string reason, CallStatus status = CallStatus::failed);
  const std::string& call() const { return call_; }  ///< `create`, `forward`, …
  /// Why the call did not succeed. `unsupported` is not a refusal: the engine lacks what the call asks for.
  CallStatus status() const { return status_; }
  /// What is wrong: the same on every rank, where ranks have made the same mistake.
  const std::string& reason() const { return reason_; }
  /// The text without the rank.
  std::string on_any_rank() const;

 private:
  std::string call_;
  std::optional<int> iteration_;
  std::string reason_;
  CallStatus status_;
};

/// All ranks play the same scenario, each on a fresh platform. Throws SubjectError, and what the group throws (a subject's error that stems
/// from a released wait or a mismatch is passed on as that).
Run play(const Scenario& scenario, Subject& subject, Platform& platform, int rank);

}  // namespace shardproof::scenario
