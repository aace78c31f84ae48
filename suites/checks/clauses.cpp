#include "suites/checks/clauses.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace shardproof::suites {

namespace {

// A clause that asks more than one thing of any scenario, and soundness among them.
struct WideClause {
  std::string_view id;
  bool races, order, repetition, memory;

  bool demands(Unsound finding) const {
    switch (finding) {
      case Unsound::race: return races;
      case Unsound::order: return order;
      case Unsound::repetition: return repetition;
      case Unsound::memory: return memory;
    }
    return false;
  }
};

constexpr std::array wide_clauses{
    WideClause{.id = "OVL-50", .races = true, .order = true, .repetition = true, .memory = true},
    WideClause{.id = "EXT-50", .races = true, .order = true, .repetition = true, .memory = true},
    WideClause{.id = "EXT-9", .races = false, .order = false, .repetition = false, .memory = true},
    WideClause{.id = "EXO-13", .races = false, .order = true, .repetition = false, .memory = false},
    WideClause{.id = "EXO-15", .races = true, .order = true, .repetition = true, .memory = true},
    WideClause{.id = "CMH-16", .races = true, .order = true, .repetition = false, .memory = true},
    WideClause{.id = "CMH-17", .races = true, .order = true, .repetition = true, .memory = true},
    WideClause{.id = "REP-17", .races = true, .order = true, .repetition = true, .memory = false},
};

}  // namespace

ClauseScope judging(const Rank& rank, std::string_view clause, Unsound finding) {
  std::vector<std::string> clauses{std::string(clause)};
  for (const WideClause& wide : wide_clauses) {
    const bool is_cited = std::ranges::find(rank.clauses(), wide.id) != rank.clauses().end();
    if (is_cited && wide.demands(finding)) clauses.emplace_back(wide.id);
  }
  return rank.under(std::move(clauses));
}

}  // namespace shardproof::suites
