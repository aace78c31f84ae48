// What changed between two reports? Pure.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// A case is *waived* when a waiver excuses each of its bad runs, *bad* when it is not waived and one of its runs is bad.
///
/// new_failure     bad now, and was not before: it passed, was skipped or waived, or did not exist
/// fixed           bad or waived before, passed now
/// still_failing   bad in both, or waived in both, with the same verdict
/// status_changed  bad in both, or waived in both, with another verdict; or skipped before and passed now
/// new_case        only in the new report, and neither bad nor waived
/// removed_case    only in the old report
/// newly_skipped   skipped now, but not before; a failure that hides behind a skip is one
/// newly_waived    waived now, but not before; a failure that hides behind a waiver is one
/// unchanged       passed or skipped in both
enum class Change : std::uint8_t {
  new_failure,
  fixed,
  still_failing,
  status_changed,
  new_case,
  removed_case,
  newly_skipped,
  newly_waived,
  unchanged
};

inline constexpr std::array<Change, 9> all_changes{Change::new_failure,    Change::fixed,        Change::still_failing,
                                                   Change::status_changed, Change::new_case,     Change::removed_case,
                                                   Change::newly_skipped,  Change::newly_waived, Change::unchanged};

std::string_view to_string(Change change);

struct CaseChange {
  std::string id;
  Change change = Change::unchanged;
  std::optional<Verdict> before, after;
  bool waived_before = false, waived_after = false;
  /// `forward_ns: 85000000 ns -> 105000000 ns`, where exact measurements of a case that passed in both differ or are gone; a new one is none.
  std::vector<std::string> measurements;
};

struct Diff {
  std::vector<std::string> context;  ///< `seed: 7 -> 8`: why the reports may differ rightly
  std::vector<CaseChange> changes;  ///< of every case, by id
  bool regression() const;  ///< a new failure, a removed case, a new skip or waiver, or an exact measurement that changed
};

/// A repeated case counts with its strongest verdict and with all values that it measured, one that was tried again with its last attempt.
Diff diff(const Report& before, const Report& after);
nlohmann::ordered_json to_json(const Diff& diff);
/// Unchanged cases are only counted.
std::string to_text(const Diff& diff, bool color);

}  // namespace shardproof::reports
