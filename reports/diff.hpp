// What changed between two reports? Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/report.hpp"

namespace shardproof::reports {

enum class Change : std::uint8_t { new_failure, fixed, still_failing, status_changed, new_case, removed_case, newly_skipped, unchanged };

std::string_view to_string(Change change);

struct CaseChange {
  std::string id;
  Change change = Change::unchanged;
  std::optional<Verdict> before, after;
  std::vector<std::string> measurements;  ///< `forward_ns: 85000000 -> 105000000`, where exact measurements differ
};

struct Diff {
  std::vector<CaseChange> changes;  ///< by id
  bool regression() const;          ///< a new failure, a removed case, a new skip, or an exact measurement that changed
};

/// A repeated case counts with its strongest verdict.
Diff diff(const Report& before, const Report& after);
nlohmann::ordered_json to_json(const Diff& diff);
std::string to_text(const Diff& diff, bool color);

}  // namespace shardproof::reports
