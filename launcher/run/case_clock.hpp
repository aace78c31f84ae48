// When is a rank overdue, and when is a case slow? By the ranks' own word of where they are, and the launcher's clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::launcher {

class CaseClock {
 public:
  /// `joining`: for a rank to come to its first case. Both outlive the clock.
  CaseClock(const WorldPlan& plan, const ControlPage& page, std::chrono::milliseconds joining);

  /// All ranks have been started.
  void start(Deadline now);

  struct Look {
    std::vector<int> overdue;            ///< ascending
    std::optional<std::uint64_t> slow;   ///< position of a case that has used half of its time; each is told once
    Deadline next;                       ///< nothing can be overdue or slow before
  };
  Look look(const std::function<bool(int rank)>& is_alive, Deadline now);

  /// `has been in mine/case[W=2] for more than its 60 s`: of an overdue rank.
  std::string overrun_text(int rank) const;
  /// `in mine/case[W=2]`, `before its first case`, `between two cases`, `after its last case`.
  std::string place(int rank) const;

 private:
  struct Seen {
    Progress progress;
    Deadline at;  ///< when the rank was first seen to be there
  };
  std::chrono::milliseconds limit(const Progress& progress) const;
  Deadline due(int rank, const Progress& progress, Deadline now);

  const WorldPlan& plan_;
  const ControlPage& page_;
  std::chrono::milliseconds joining_;
  std::chrono::milliseconds shortest_;  ///< that any case of the plan may take
  std::vector<Seen> seen_;
  std::vector<bool> told_;  ///< by position: it is slow
};

/// `0.5 s`
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace shardproof::launcher
