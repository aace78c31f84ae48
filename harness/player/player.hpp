// Plays a scenario: builds the subject's trainer on a platform, makes the script's calls, and takes the facts.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "harness/device/platform.hpp"
#include "harness/player/run.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof::player {

/// A call of the subject failed, or answered less than it must. The text names the call, the iteration and the rank.
class SubjectError : public std::runtime_error {
 public:
  /// Without an iteration, the call came before the first iteration.
  SubjectError(std::string call, std::optional<int> iteration, int rank, std::string reason,
               CallStatus status = CallStatus::failed);
  const std::string& call() const { return call_; }  ///< `create`, `forward`, …
  /// Why the call did not succeed. `unsupported` is not a refusal: the engine lacks a feature that the call needs.
  CallStatus status() const { return status_; }
  /// The reason. Ranks that made the same mistake have the same reason.
  const std::string& reason() const { return reason_; }
  /// The text without the rank.
  std::string on_any_rank() const;
  /// The call of the script that the subject was in. Empty: it came before all calls of the script.
  const std::optional<ScriptPlace>& place() const { return place_; }
  void set_place(const ScriptPlace& place) { place_ = place; }

 private:
  std::string call_;
  std::optional<int> iteration_;
  std::string reason_;
  CallStatus status_;
  std::optional<ScriptPlace> place_;
};

/// Whether a play notes the gradients before each `clip_grad_norm`. Notes are copies on the compute stream. Where the
/// host pays for each submission, the play makes none: they would change its times.
enum class ClipNotes : std::uint8_t { none, before_clipping };

/// Plays the scenario on this rank. All ranks play the same scenario, each on a fresh platform. Throws SubjectError,
/// and the exceptions of the group. If a subject's error results from a released wait or a mismatch, it throws the
/// group's exception.
Run play(const Scenario& scenario, Subject& subject, Platform& platform, int rank,
         ClipNotes clip_notes = ClipNotes::none);

}  // namespace shardproof::player
