// A statement of conformance: which clauses an engine meets, by kind of engine, and the run that shows it. An engine's
// author shows it to users. `statement` prints it as Markdown or JSON. clause_evidence.hpp defines the statuses. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "reports/model/report.hpp"
#include "reports/model/waiver.hpp"
#include "reports/statement/clause_evidence.hpp"

namespace shardproof::reports {

/// The version of the JSON document (reports/model/schema/statement.schema.json).
inline constexpr int statement_version = 1;

struct ClauseRow {
  std::string clause;
  ClauseEvidence evidence;
  std::optional<bool> required;  ///< As in ClauseInfo. Empty: unknown, like an empty text.
  std::string text;
};

struct KindTable {
  std::string engine;  ///< Empty: cases that name no kind of engine.
  std::vector<ClauseRow> clauses;
};

struct UsedWaiver {
  Waiver waiver;
  std::vector<std::string> cases;  ///< The ids that it excuses.
};

struct UnrunCases {
  std::string reason;
  std::vector<std::string> cases;  ///< ids, each once
};

struct Statement {
  RunHead head;  ///< Of the report.
  /// The worlds in which a case ran have these. Sorted, each once.
  std::vector<std::string> devices, fabrics;
  std::vector<int> world_sizes;
  std::vector<KindTable> kinds;
  std::vector<UsedWaiver> waivers;  ///< Those that excuse a case, in the order of their file.
  std::vector<UnrunCases> unrun;  ///< By reason.
};

/// `listing`: the worker's cases and clauses. It has the clauses' texts, and the clauses that no case of the report
/// checks. Nullptr: unknown.
Statement statement_of(const Report& report, const protocol::Listing* listing);

nlohmann::ordered_json to_json(const Statement& statement);
std::string to_markdown(const Statement& statement);

}  // namespace shardproof::reports
