// The failures of one case as people read them: a failure that several ranks share once, of each cause the first, and the clauses that it
// breaks.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "reports/export/text_style.hpp"

namespace shardproof::reports {

class CaseFailures {
 public:
  /// `result` must outlive it. `all`: also failures whose cause another failure has, without a limit.
  CaseFailures(const CaseResult& result, bool all);

  /// `told`: the clauses whose texts a reader has seen already; those of this text are added. nullptr: no clauses.
  std::string text(const TextStyle& style, std::set<std::string>* told) const;

  /// The failures that `text` shows, and those that it counts as alike. First cause first.
  const std::vector<const event::AssertionFailed*>& covered() const { return covered_; }

 private:
  struct Shown {
    std::vector<int> ranks;  ///< ascending
    const event::AssertionFailed* failure;
    std::uint64_t alike = 0;  ///< other failures of the same cause
  };
  void fold(const std::vector<Shown>& shared);

  std::vector<Shown> shown_;
  std::vector<const event::AssertionFailed*> covered_;
  std::uint64_t left_out_ = 0;
  bool is_alone_ = true;  ///< one failure, of one rank
};

}  // namespace shardproof::reports
