// How a case ended for one rank, given how every rank's body ended. Pure, and the same on every rank: what one rank concludes of another
// does not depend on which of them was faster.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "harness/control/control_page.hpp"
#include "harness/protocol/events.hpp"

namespace shardproof {

/// What a rank says to the others when its body has ended.
struct BodyEnd {
  /// By its own doing: passed, failed, error, or skipped (it asked for that). What came of being released is left aside: a rank that was
  /// released and did nothing wrong before says passed.
  Outcome own = Outcome::passed;
  std::string reason;  ///< of an error or a skip
  std::uint64_t world_calls = 0;  ///< on the world group, in this case
  std::string defect = {};  ///< why this process can run no further case; empty: it can
};

/// One that has a defect travels with that for its reason: nobody goes on after it.
ControlPage::Ballot to_ballot(const BodyEnd& end);
BodyEnd from_ballot(const ControlPage::Ballot& ballot);

struct CaseEnd {
  Outcome outcome = Outcome::passed;
  std::string reason;
  int culprit = -1;
};

/// `mine` is this rank's own end with its reason whole (a ballot's may be cut); `aborted` is the abort word of the case.
///
/// A rank's own failure is its outcome, whoever else failed before. Without one: a skip that any rank asked for is everybody's, unless a
/// rank failed; an aborted case has released everybody else; ranks that made different numbers of calls on the world group, asked for
/// different things, or all waited for each other, are all in error; a case without an assertion is in error. A rank whose process can run
/// no further case says so in its reason, and does not pass.
CaseEnd conclude(int rank, const BodyEnd& mine, std::uint64_t assertions, std::span<const BodyEnd> all,
                 const std::optional<Abort>& aborted);

/// Why the world ends with this case: the first rank whose process can run no further one. Empty: there is none.
std::string reason_to_end_world(std::span<const BodyEnd> all);

}  // namespace shardproof
