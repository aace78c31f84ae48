// A report's evidence for each clause: the status of the clause, and the numbers of cases that decide it. `statement`
// prints it, and `diff` compares it. Pure.
//
// A clause has a status for each kind of engine. The first of these lines that applies decides it.
//   - not_met: A case failed under the clause, and no waiver excuses it.
//   - not_tested: A case that cites the clause has not run (verdict `not_run`). Evidence is missing.
//   - waived: A case failed under the clause, and a waiver excuses it.
//   - met: A case that cites the clause passed.
//   - not_claimed: The clause has cases. All of them were skipped, because the subject lacks features.
//   - not_tested: No case of the clause ran to its end.
//
// A failure names the clauses that it breaks.
//   - A case that ended as `failed` or `error` counts as failed under the named clauses only. They may be other clauses
//     than the case cites. If its failures name no clause, it counts under all clauses that it cites.
//   - A case that ended as `disagreed`, `hung` or `crashed` counts as failed under the named clauses, and under all
//     clauses that it cites. So does a case with failures that the report leaves out.
//   - For its other clauses, a failed case shows nothing: it may have ended before their assertions. It counts as
//     `failed_elsewhere`.
//
// A repeated case counts once for each clause, with its strongest result. A case that was tried again counts with its
// last attempt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "reports/model/report.hpp"

namespace shardproof::reports {

enum class ClauseStatus : std::uint8_t { not_met, waived, met, not_claimed, not_tested };

inline constexpr std::array<ClauseStatus, 5> all_clause_statuses{ClauseStatus::not_met, ClauseStatus::waived,
                                                                 ClauseStatus::met, ClauseStatus::not_claimed,
                                                                 ClauseStatus::not_tested};

/// `not_met`, the word in JSON.
std::string_view to_string(ClauseStatus status);
/// `not met`, the words for people.
std::string_view words_of(ClauseStatus status);

/// The numbers of cases, by what they show about a clause.
struct ClauseEvidence {
  std::size_t passed = 0;
  std::size_t failed = 0;  ///< Under this clause, without a waiver.
  std::size_t waived = 0;  ///< Failed under this clause, with a waiver.
  std::size_t unclaimed = 0;  ///< Skipped: the subject does not claim what the case needs.
  std::size_t skipped = 0;  ///< Skipped for another reason.
  std::size_t not_run = 0;  ///< Without evidence.
  std::size_t failed_elsewhere = 0;  ///< Failed under other clauses only.
  friend bool operator==(const ClauseEvidence&, const ClauseEvidence&) = default;
};

ClauseStatus status_of(const ClauseEvidence& evidence);

/// Orders clause ids as people do: OVL-9 before OVL-10.
struct ClauseOrder {
  bool operator()(std::string_view a, std::string_view b) const;
};

using EvidenceByClause = std::map<std::string, ClauseEvidence, ClauseOrder>;

/// The evidence by kind of engine, then by clause. Cases that name no kind are under the empty kind. Ignores the cases
/// that `is_counted` rejects.
std::map<std::string, EvidenceByClause> clause_evidence(const Report& report,
                                                        const std::function<bool(const CaseResult&)>& is_counted = {});

}  // namespace shardproof::reports
