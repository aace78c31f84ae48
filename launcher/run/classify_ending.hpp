// Decides which ending of a rank is reported, from how its process ended and from what the launcher knew and did. The
// supervisor of a world (supervisor.hpp) calls it. Pure.
#pragma once

#include <cstdint>

#include "harness/control/control_plane.hpp"
#include "harness/protocol/ending.hpp"
#include "launcher/process/process.hpp"

namespace shardproof::launcher {

/// The launcher's strongest measure against the ranks of a world so far.
enum class Measure : std::uint8_t { none, terminated, killed };

/// The end of a rank's process, and what the launcher knew and did before.
struct EndedRank {
  Exit exit;
  control::Progress progress;  ///< the rank's last report
  Measure measure = Measure::none;
  bool is_doomed = false;       ///< the world was ending already
  bool doomed_by_rank = false;  ///< this rank ended the world itself
  bool is_overdue = false;      ///< the rank is to blame for a deadline
  bool was_asked = false;       ///< the command that started the rank sent it a signal, and a signal ended it
  bool is_interrupted = false;  ///< a signal to the launcher ends the run
};

/// What the end of a rank means for its world.
enum class Consequence : std::uint8_t {
  in_order,  ///< The rank left in order.
  stopped,   ///< It ended because its world was ending.
  overran,   ///< The launcher ended it after a deadline.
  follows,   ///< It failed by itself while its world was ending. The culprit is another rank.
  late,      ///< It failed after it had left in order. The other ranks can go on.
  cause,     ///< It failed first: its world ends.
};

struct ClassifiedEnding {
  protocol::Ending::How how = protocol::Ending::How::exited;
  Consequence consequence = Consequence::in_order;
  std::int64_t position = -1;      ///< in the plan, of the case in which the rank ended
  bool is_infrastructure = false;  ///< the rank could not do its work, in no case

  friend bool operator==(const ClassifiedEnding&, const ClassifiedEnding&) = default;
};

ClassifiedEnding classify_ending(const EndedRank& ended);

/// How the launcher reports a rank that it ended because of another rank.
protocol::Ending::How stopped(bool is_interrupted);

}  // namespace shardproof::launcher
