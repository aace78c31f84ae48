#include "suites/checks/clauses.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace shardproof::suites {

namespace {

// A clause and the findings that it asks about. The table omits clauses that only one check judges: the case or the
// check names them.
class Asked {
 public:
  constexpr Asked(std::string_view clause, std::initializer_list<Finding> findings) : clause_(clause) {
    for (const Finding finding : findings) findings_ |= bit(finding);
  }

  constexpr std::string_view clause() const { return clause_; }
  constexpr bool about(Finding finding) const { return (findings_ & bit(finding)) != 0; }

 private:
  static constexpr unsigned bit(Finding finding) { return 1U << static_cast<unsigned>(finding); }

  std::string_view clause_;
  unsigned findings_ = 0;
};

using enum Finding;

// The findings that a clause about any combination of features asks about.
constexpr std::initializer_list<Finding> everything{
    race, order, repetition, memory, missing_collective, extra_gather, extra_reduction, values};

constexpr std::array all_asked{
    Asked("OVL-10", {values}),
    Asked("OVL-17", {extra_reduction, values}),
    Asked("OVL-18", {extra_gather}),
    Asked("OVL-19", {values}),
    Asked("OVL-24", {missing_collective, extra_gather, extra_reduction}),
    Asked("OVL-41", {values}),
    Asked("OVL-50", everything),
    Asked("EXT-7", {values}),
    Asked("EXT-9", {memory}),
    Asked("EXT-23", {values}),
    Asked("EXT-24", {values}),
    Asked("EXT-25", {values}),
    Asked("EXT-30", {values}),
    Asked("EXT-50", everything),
    Asked("EXO-13", {order}),
    Asked("EXO-14", {values}),
    Asked("EXO-15", everything),
    Asked("CMH-1", {values}),
    Asked("CMH-2", {values}),
    Asked("CMH-5", {values}),
    Asked("CMH-6", {extra_reduction, values}),
    Asked("CMH-12", {values}),
    Asked("CMH-13", {values}),
    Asked("CMH-16", {race, order, memory}),
    Asked("CMH-17", everything),
    Asked("CMH-22", {values}),
    Asked("REP-1", {values}),
    Asked("REP-2", {missing_collective, extra_gather, extra_reduction}),
    Asked("REP-6", {extra_reduction, values}),
    Asked("REP-7", {values}),
    Asked("REP-9", {values}),
    Asked("REP-10", {values}),
    Asked("REP-11", {values}),
    Asked("REP-15", {values}),
    Asked("REP-17", {race, order, repetition, missing_collective, extra_gather, extra_reduction, values}),
    Asked("REP-19", {values}),
    Asked("REP-30", {values}),
    Asked("REP-40", {values}),
};

}  // namespace

std::vector<std::string> asking_about(const Rank& rank, Finding finding) {
  std::vector<std::string> clauses;
  std::ranges::copy_if(rank.clauses(), std::back_inserter(clauses), [&](const std::string& clause) {
    return std::ranges::any_of(all_asked,
                               [&](const Asked& each) { return each.clause() == clause && each.about(finding); });
  });
  return clauses;
}

ClauseScope judging(const Rank& rank, std::string_view clause, Finding finding) {
  std::vector<std::string> clauses = asking_about(rank, finding);
  std::erase(clauses, clause);
  clauses.insert(clauses.begin(), std::string(clause));
  return rank.under(std::move(clauses));
}

ClauseScope judging(const Rank& rank, Finding finding) { return rank.under(asking_about(rank, finding)); }

}  // namespace shardproof::suites
