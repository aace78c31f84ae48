// Compares two reports case by case and clause by clause. `diff` uses it. Pure.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/model/report.hpp"
#include "reports/statement/clause_evidence.hpp"

namespace shardproof::reports {

/// A case is *waived* if a waiver excuses each of its bad runs. It is *bad* if it is not waived and one of its runs is
/// bad.
///   - new_failure: bad now, but not before: it passed, was skipped or waived, or did not exist.
///   - fixed: bad or waived before, and passed now.
///   - still_failing: bad in both or waived in both, with the same verdict.
///   - status_changed: bad in both or waived in both, with another verdict. Or passed now, and before skipped or not
///     run because of --fail-fast.
///   - new_case: only in the new report, and neither bad nor waived.
///   - removed_case: only in the old report.
///   - newly_skipped: skipped now, but not before. A failure that a skip hides is also newly skipped.
///   - newly_not_run: not run now, because the run ended at its first failed case (--fail-fast), and run before.
///   - newly_waived: waived now, but not before. A failure that a waiver hides is also newly waived.
///   - unchanged: passed or skipped in both, or not run in both because of --fail-fast.
enum class Change : std::uint8_t {
  new_failure,
  fixed,
  still_failing,
  status_changed,
  new_case,
  removed_case,
  newly_skipped,
  newly_not_run,
  newly_waived,
  unchanged
};

inline constexpr std::array<Change, 10> all_changes{
    Change::new_failure,  Change::fixed,         Change::still_failing, Change::status_changed, Change::new_case,
    Change::removed_case, Change::newly_skipped, Change::newly_not_run, Change::newly_waived,   Change::unchanged};

std::string_view to_string(Change change);

struct CaseChange {
  std::string id;
  Change change = Change::unchanged;
  std::optional<Verdict> before, after;
  bool waived_before = false, waived_after = false;
  /// The exact measurements that differ or are gone, if the case passed in both reports: `forward_ns: 85000000 ns ->
  /// 105000000 ns`. New measurements do not count.
  std::vector<std::string> measurements;
  /// The case ran before. Now it does not run on as many ranks, and neither does any other case.
  bool lost_ranks = false;
  /// The options of the runs that explain why only one report has the case: `--ranks: all -> 1,2`. Empty: they do not
  /// explain it.
  std::string not_compared;
};

/// A clause, for one kind of engine. Both statuses are from the cases that both runs were to run (reach.hpp).
struct ClauseChange {
  std::string engine;  ///< Empty: cases that name no kind of engine.
  std::string clause;
  ClauseStatus before = ClauseStatus::not_tested;
  ClauseStatus after = ClauseStatus::not_tested;
  /// From strong to weak: met, waived, not tested or not claimed, not met.
  bool is_weaker() const;
  bool is_stronger() const;
};

/// `OVL-5 (fully_shard)`
std::string name_of(const ClauseChange& change);

struct Diff {
  std::vector<std::string> context;  ///< Why the reports may legitimately differ, as `seed: 7 -> 8`.
  std::vector<CaseChange> changes;  ///< For every case, by id.
  std::vector<ClauseChange> clauses;  ///< By kind of engine, then by clause.
  std::vector<std::string> not_compared;  ///< A sentence for each reason. Gates use them (gate.hpp), and JSON.
  std::string measurements_not_compared;  ///< `seed: 7 -> 8`. Empty: the runs have the same seed.
  bool regression() const;  ///< A new failure, a removed case, a new skip or waiver, or a changed exact measurement.
};

/// A repeated case counts with its strongest verdict and with all its measured values. A case that was tried again
/// counts with its last attempt.
Diff diff(const Report& before, const Report& after);
nlohmann::ordered_json to_json(const Diff& diff);
/// The text only counts unchanged cases. Its last line says whether there is a regression, unless a gate's text
/// follows, which has its own verdict (gate.hpp).
std::string to_text(const Diff& diff, bool color, bool has_gate = false);

}  // namespace shardproof::reports
