// A gate on the difference of two reports: the changes that a user forbids, and those of them that are present.
// `diff --fail-on` uses it. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/diff/diff.hpp"

namespace shardproof::reports {

/// The classes of changes that a gate can forbid, besides the word `regression`. Each Change except `unchanged` is a
/// class. Three more are not in Change.
///   - measurements_changed: A case that passed in both has another exact measurement.
///   - lost_ranks: A case ran before, and no case ran on as many ranks now.
///   - clause_weaker: A clause has a weaker status.
std::span<const std::string_view> gate_classes();

/// Stands for the classes that are regressions without a gate, and for lost_ranks.
inline constexpr std::string_view regression_class = "regression";

struct Gate {
  std::vector<std::string> fail_on;  ///< Classes, or `regression`.
  /// Filters over cases, and globs over clauses as `OVL-5` or `OVL-5 (fully_shard)`. Such a case may be removed, newly
  /// skipped or newly waived, or lose its ranks. Such a clause may become weaker, unless it is not met.
  std::vector<std::string> allow;
};

/// The changes of a forbidden class.
struct ForbiddenChanges {
  std::string_view change;
  std::vector<std::string> names;  ///< Case ids, or clauses as `OVL-5 (fully_shard)`.
};

struct GateResult {
  std::vector<std::string_view> classes;  ///< The forbidden classes.
  std::vector<ForbiddenChanges> found;  ///< Each class that is present.
  std::vector<std::string> unmatched;  ///< Patterns of Gate::allow that match no case and no compared clause.
  bool is_passed() const { return found.empty(); }
};

/// The gate ignores changes that `diff` cannot compare. A case that lost its ranks is not named again as removed or
/// skipped.
GateResult apply(const Gate& gate, const Diff& diff, const Report& before, const Report& after);

nlohmann::ordered_json to_json(const GateResult& result);
/// Names what is forbidden and present, and what cannot be compared.
std::string to_text(const GateResult& result, const Diff& diff, bool color);

}  // namespace shardproof::reports
