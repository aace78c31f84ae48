// The outcome of a case on one rank, from the ends of all ranks' bodies. The functions are pure, and every rank gets
// the same result: the outcome does not depend on which rank was faster.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "harness/control/control_plane.hpp"
#include "harness/protocol/events.hpp"

namespace shardproof::runner {

/// The end of a rank's body, as the rank reports it to the other ranks.
struct BodyEnd {
  /// The rank's own outcome: passed, failed, error, or skipped (this rank asked to skip). It leaves out what a release
  /// caused: a rank that was released and did nothing wrong before reports passed.
  protocol::Outcome own = protocol::Outcome::passed;
  std::string reason;  ///< of an error or a skip
  std::uint64_t world_calls = 0;  ///< calls on the world group in this case
  std::string defect = {};  ///< Why this process can run no further case. Empty: it can.
  bool checked_nothing = false;  ///< The body made no assertion.
  bool left_call = false;  ///< A call on a group ended early.
  bool has_changed_process = false;  ///< The case is the reason of the defect: it did not leave its process as it was.
};

/// An end with a defect has the defect as the ballot's text: no rank goes on after it.
control::Ballot to_ballot(const BodyEnd& end);
BodyEnd from_ballot(const control::Ballot& ballot);

struct CaseEnd {
  protocol::Outcome outcome = protocol::Outcome::passed;
  std::string reason;
  int culprit = -1;
};

/// `mine` is this rank's own end with its whole reason; a ballot may cut the reason. `aborted` is the abort word of the
/// case.
///
/// The first rule that applies decides:
/// 1. This rank's own failure is its outcome, even if another rank failed before.
/// 2. A skip that any rank asked for skips the case on every rank. If a rank failed, the skip does not count, and the
///    ranks that did not fail are released.
/// 3. An aborted case releases all ranks but the rank that aborted it, unless rule 4 is the reason of the abort.
/// 4. All ranks are in error if they made different numbers of calls on the world group, asked for different
///    collectives, or all waited for each other.
/// 5. A case without an assertion is in error.
///
/// A rank whose process can run no further case says so in its reason, and does not pass.
CaseEnd conclude(int rank, const BodyEnd& mine, std::span<const BodyEnd> all,
                 const std::optional<control::Abort>& aborted);

/// The case's failure, from the outcomes of all ranks: failed if one rank failed, else error if one rank is in error.
/// Empty: no rank failed. Every rank gets the same result.
std::optional<protocol::Outcome> failure_of(std::span<const BodyEnd> all, const std::optional<control::Abort>& aborted);

/// True if a call ended early on a rank. A fabric of messages may then still carry messages of this case, and its
/// groups make no further call.
bool may_have_left_messages(std::span<const BodyEnd> all);

/// True if the case itself is the reason for each defect. A fresh process of the same machine has no defect.
bool is_end_by_case(std::span<const BodyEnd> all);

/// Why the world ends with this case: the defect of the first rank whose process can run no further case. Empty: the
/// world goes on.
std::string reason_to_end_world(std::span<const BodyEnd> all);

}  // namespace shardproof::runner
