// The failures of one case as text for people. It shows a failure that several ranks share once, the first failure of
// each cause, and the clauses that these failures break.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "reports/export/text_style.hpp"

namespace shardproof::reports {

class CaseFailures {
 public:
  /// `result` must outlive this object. `all`: also shows failures that share a cause, without a limit.
  CaseFailures(const CaseResult& result, bool all);

  /// `seen_clauses`: the clauses that the reader has seen already. The function adds the clauses of its text. Nullptr:
  /// no clauses.
  std::string text(const TextStyle& style, std::set<std::string>* seen_clauses) const;

  /// The failures that `text` shows, and those that it counts as alike. First cause first.
  const std::vector<const protocol::event::AssertionFailed*>& covered() const { return covered_; }

 private:
  struct Shown {
    std::vector<int> ranks;  ///< ascending
    const protocol::event::AssertionFailed* failure;
    std::uint64_t alike = 0;  ///< other failures of the same cause
    std::set<int> others;  ///< ranks that have these, and not this one
  };
  void fold(const std::vector<Shown>& shared);

  std::vector<Shown> shown_;
  std::vector<const protocol::event::AssertionFailed*> covered_;
  std::uint64_t left_out_ = 0;
  bool is_alone_ = true;  ///< one failure, of one rank
};

}  // namespace shardproof::reports
