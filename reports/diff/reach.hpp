// Reach compares the demands on two runs: world sizes, profile and seed. A case that only one of the runs was to run
// shows no change. `diff` uses it. Pure.
#pragma once

#include <set>
#include <string>

#include "reports/model/report.hpp"

namespace shardproof::reports {

class Reach {
 public:
  Reach(const Report& before, const Report& after);

  /// Why a case with this number of ranks is only in the old report, or only in the new one, if the options of the runs
  /// explain it: `--ranks: all -> 1,2`. Empty: the options do not explain it.
  std::string why_removed(int ranks) const { return why_only_one(ranks, after_); }
  std::string why_new(int ranks) const { return why_only_one(ranks, before_); }
  /// Why measurements may differ: `seed: 7 -> 8`. Empty: the seeds are equal.
  const std::string& why_measured() const { return seeds_; }

 private:
  struct Sizes {
    std::set<int> asked;  ///< The numbers of ranks in --ranks. Empty: all.
    std::set<int> started;  ///< The sizes of the worlds in the report.
    bool contains(int ranks) const { return asked.empty() ? started.contains(ranks) : asked.contains(ranks); }
  };
  static Sizes sizes_of(const Report& report);
  /// `other`: of the run that does not have the case.
  std::string why_only_one(int ranks, const Sizes& other) const;

  std::string profiles_, ranks_, seeds_;  ///< A text for each difference. Empty: equal.
  Sizes before_, after_;
};

}  // namespace shardproof::reports
