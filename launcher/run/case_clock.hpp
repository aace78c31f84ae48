// Finds ranks that are overdue and cases that are slow. Uses the positions that ranks report, and the launcher's clock.
// A running world (world.cpp) owns it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/control_plane.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::launcher {

class CaseClock {
 public:
  /// `joining`: the time limit for a rank to begin its first case. `plan` and `page` outlive the clock.
  CaseClock(const protocol::WorldPlan& plan, const control::ControlPlane& page, std::chrono::milliseconds joining);

  /// The caller calls this when all ranks have been started.
  void start(control::Deadline now);

  struct Check {
    std::vector<int> overdue;  ///< ascending
    std::optional<std::uint64_t> slow;  ///< position of a case that has used half of its time; reported once per case
    control::Deadline next;  ///< no rank is overdue and no case is slow before this time
  };
  Check check(const std::function<bool(int rank)>& is_alive, control::Deadline now);

  /// For an overdue rank: `has been in mine/case[W=2] for more than its 60 s`. If ranks share a core, the text has the
  /// factor: `its 12 s: 3 s × 4 ranks that share a core`.
  std::string overrun_text(int rank) const;
  /// `in mine/case[W=2]`, `before its first case`, `between two cases`, `after its last case`.
  std::string place(int rank) const;

 private:
  struct SeenProgress {
    control::Progress progress;
    control::Deadline at;  ///< time of the first look that saw the rank there
  };
  std::chrono::milliseconds limit(const control::Progress& progress) const;
  control::Deadline due(int rank, const control::Progress& progress, control::Deadline now);

  const protocol::WorldPlan& plan_;
  const control::ControlPlane& page_;
  std::chrono::milliseconds joining_;
  std::chrono::milliseconds shortest_;  ///< the shortest time limit of the plan's cases
  std::vector<SeenProgress> seen_;
  std::vector<bool> reported_;  ///< by position: the case was reported as slow
};

}  // namespace shardproof::launcher
