#include "reports/statement/clause_evidence.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "harness/base/enum_names.hpp"

namespace shardproof::reports {

namespace {

/// The evidence of one case for a clause. The strongest is last.
enum class Part : std::uint8_t { unclaimed, skipped, failed_elsewhere, passed, waived, not_run, failed };

std::size_t ClauseEvidence::* count_of(Part part) {
  switch (part) {
    case Part::unclaimed: return &ClauseEvidence::unclaimed;
    case Part::skipped: return &ClauseEvidence::skipped;
    case Part::failed_elsewhere: return &ClauseEvidence::failed_elsewhere;
    case Part::passed: return &ClauseEvidence::passed;
    case Part::waived: return &ClauseEvidence::waived;
    case Part::not_run: return &ClauseEvidence::not_run;
    case Part::failed: break;
  }
  return &ClauseEvidence::failed;
}

Part part_of_cited(const CaseResult& result) {
  switch (result.verdict) {
    case Verdict::passed: return Part::passed;
    case Verdict::skipped: return result.unclaimed ? Part::unclaimed : Part::skipped;
    case Verdict::not_run: return Part::not_run;
    default: return Part::failed_elsewhere;
  }
}

/// The clauses that a failed case counts against.
std::set<std::string_view> broken_clauses(const CaseResult& result) {
  std::set<std::string_view> broken;
  for (const Failure& failure : result.failures)
    broken.insert(failure.assertion.clauses.begin(), failure.assertion.clauses.end());
  const bool ended_by_itself = result.verdict == Verdict::failed || result.verdict == Verdict::error;
  if (broken.empty() || !ended_by_itself || result.failures_left_out > 0)
    broken.insert(result.info.clauses.begin(), result.info.clauses.end());
  return broken;
}

using Parts = std::map<std::string_view, Part>;

void add(Parts& parts, std::string_view clause, Part part) {
  const auto [found, is_new] = parts.try_emplace(clause, part);
  if (!is_new) found->second = std::max(found->second, part);
}

void add(Parts& parts, const CaseResult& result) {
  const Part cited = part_of_cited(result);
  for (const std::string& clause : result.info.clauses) add(parts, clause, cited);
  if (cited != Part::failed_elsewhere) return;
  const Part broken = result.waiver >= 0 ? Part::waived : Part::failed;
  for (const std::string_view clause : broken_clauses(result)) add(parts, clause, broken);
}

/// `OVL-10` as ("OVL-", 2 digits, "10"): the number of digits orders numbers without zeros before them.
std::tuple<std::string_view, std::size_t, std::string_view> key_of(std::string_view clause) {
  const std::size_t digits = clause.find_last_not_of("0123456789") + 1;
  return {clause.substr(0, digits), clause.size() - digits, clause.substr(digits)};
}

}  // namespace

std::string_view to_string(ClauseStatus status) {
  return base::name_of<ClauseStatus::not_tested>(status, {"not_met", "waived", "met", "not_claimed", "not_tested"});
}

std::string_view words_of(ClauseStatus status) {
  switch (status) {
    case ClauseStatus::not_met: return "not met";
    case ClauseStatus::not_claimed: return "not claimed";
    case ClauseStatus::not_tested: return "not tested";
    default: return to_string(status);
  }
}

ClauseStatus status_of(const ClauseEvidence& evidence) {
  if (evidence.failed > 0) return ClauseStatus::not_met;
  if (evidence.not_run > 0) return ClauseStatus::not_tested;
  if (evidence.waived > 0) return ClauseStatus::waived;
  if (evidence.passed > 0) return ClauseStatus::met;
  const bool was_only_unclaimed = evidence.unclaimed > 0 && evidence.skipped + evidence.failed_elsewhere == 0;
  return was_only_unclaimed ? ClauseStatus::not_claimed : ClauseStatus::not_tested;
}

bool ClauseOrder::operator()(std::string_view a, std::string_view b) const { return key_of(a) < key_of(b); }

std::map<std::string, EvidenceByClause> clause_evidence(const Report& report,
                                                        const std::function<bool(const CaseResult&)>& is_counted) {
  std::map<std::string, EvidenceByClause> evidence;
  for (std::span<const CaseResult> rest(report.cases); !rest.empty();) {
    const std::span<const CaseResult> runs = repetitions(rest);
    rest = rest.subspan(runs.size());
    Parts parts;
    for (const CaseResult& result : runs) {
      if (!result.superseded && (!is_counted || is_counted(result))) add(parts, result);
    }
    if (parts.empty()) continue;
    EvidenceByClause& of_kind = evidence[runs.front().info.engine];
    for (const auto& [clause, part] : parts) ++(of_kind[std::string(clause)].*count_of(part));
  }
  return evidence;
}

}  // namespace shardproof::reports
