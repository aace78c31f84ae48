#include "reports/statement/statement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace shardproof::reports {

using nlohmann::ordered_json;
using protocol::CaseInfo;
using protocol::ClauseInfo;
using protocol::Listing;

namespace {

bool has_run(const CaseResult& result) {
  return result.verdict != Verdict::skipped && result.verdict != Verdict::not_run;
}

/// Adds the clauses of listed cases that are not in the report. A kind without a case in the report gets no table: the
/// run says nothing about it.
void add_untested(std::map<std::string, EvidenceByClause>& evidence, const Listing& listing) {
  for (const CaseInfo& info : listing.cases) {
    const auto of_kind = evidence.find(info.engine);
    if (of_kind == evidence.end()) continue;
    for (const std::string& clause : info.clauses) of_kind->second.try_emplace(clause);
  }
}

std::vector<KindTable> tables_of(const Report& report, const Listing* listing) {
  std::map<std::string, EvidenceByClause> evidence = clause_evidence(report);
  if (listing != nullptr) add_untested(evidence, *listing);
  std::map<std::string_view, const ClauseInfo*> described;
  if (listing != nullptr) {
    for (const ClauseInfo& clause : listing->clauses) described.emplace(clause.id, &clause);
  }
  std::vector<KindTable> tables;
  for (const auto& [engine, clauses] : evidence) {
    KindTable& table = tables.emplace_back(KindTable{.engine = engine, .clauses = {}});
    for (const auto& [clause, counts] : clauses) {
      ClauseRow row{.clause = clause, .evidence = counts, .required = std::nullopt, .text = {}};
      if (const auto known = described.find(clause); known != described.end()) {
        row.required = known->second->required;
        row.text = known->second->text;
      }
      table.clauses.push_back(std::move(row));
    }
  }
  return tables;
}

std::vector<UsedWaiver> used_waivers(const Report& report) {
  std::vector<std::vector<std::string>> cases(report.head.waivers.size());
  for (const CaseResult& result : report.cases) {
    if (result.waiver < 0 || result.superseded) continue;
    std::vector<std::string>& ids = cases.at(static_cast<std::size_t>(result.waiver));
    if (ids.empty() || ids.back() != result.info.id) ids.push_back(result.info.id);
  }
  std::vector<UsedWaiver> used;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!cases[i].empty()) used.push_back({report.head.waivers[i], std::move(cases[i])});
  }
  return used;
}

std::string reason_of(const CaseResult& result) {
  if (result.verdict == Verdict::not_run)
    return result.reasons.empty() ? "not run: there is no evidence" : "not run: " + result.reasons.begin()->second;
  const std::string reason = skip_reason(result);
  return "skipped: " + (reason.empty() ? "no reason given" : reason);
}

std::vector<UnrunCases> unrun_cases(const Report& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const CaseResult& result : report.cases) {
    if (result.superseded || has_run(result)) continue;
    std::vector<std::string>& ids = by_reason[reason_of(result)];
    if (ids.empty() || ids.back() != result.info.id) ids.push_back(result.info.id);
  }
  std::vector<UnrunCases> unrun;
  for (auto& [reason, cases] : by_reason) unrun.push_back({reason, std::move(cases)});
  return unrun;
}

ordered_json json_of(const ClauseRow& row) {
  const ClauseEvidence& evidence = row.evidence;
  return {{"clause", row.clause},
          {"status", to_string(status_of(evidence))},
          {"required", row.required ? ordered_json(*row.required) : ordered_json(nullptr)},
          {"text", row.text},
          {"cases",
           {{"passed", evidence.passed},
            {"failed", evidence.failed},
            {"waived", evidence.waived},
            {"not_claimed", evidence.unclaimed},
            {"skipped", evidence.skipped},
            {"not_run", evidence.not_run},
            {"failed_elsewhere", evidence.failed_elsewhere}}}};
}

ordered_json json_of(const UsedWaiver& used) {
  return {{"pattern", used.waiver.pattern},
          {"verdict", to_string(used.waiver.verdict)},
          {"reason", used.waiver.reason},
          {"link", used.waiver.link},
          {"owner", used.waiver.owner},
          {"expires", used.waiver.expires},
          {"cases", used.cases}};
}

}  // namespace

Statement statement_of(const Report& report, const Listing* listing) {
  Statement statement{.head = report.head,
                      .devices = {},
                      .fabrics = {},
                      .world_sizes = {},
                      .kinds = tables_of(report, listing),
                      .waivers = used_waivers(report),
                      .unrun = unrun_cases(report)};
  std::set<std::string> devices, fabrics;
  std::set<int> sizes;
  for (const CaseResult& result : report.cases) {
    if (result.superseded || !has_run(result)) continue;
    const WorldResult& world = report.worlds.at(static_cast<std::size_t>(result.world));
    devices.insert(world.device);
    fabrics.insert(world.fabric);
    sizes.insert(world.size);
  }
  statement.devices.assign(devices.begin(), devices.end());
  statement.fabrics.assign(fabrics.begin(), fabrics.end());
  statement.world_sizes.assign(sizes.begin(), sizes.end());
  return statement;
}

ordered_json to_json(const Statement& statement) {
  const RunHead& head = statement.head;
  ordered_json gpus = ordered_json::array();
  for (const protocol::GpuInfo& gpu : head.gpus) gpus.push_back(gpu.name);
  ordered_json kinds = ordered_json::array(), waivers = ordered_json::array(), unrun = ordered_json::array();
  for (const KindTable& table : statement.kinds) {
    ordered_json clauses = ordered_json::array();
    for (const ClauseRow& row : table.clauses) clauses.push_back(json_of(row));
    kinds.push_back({{"engine", table.engine.empty() ? ordered_json(nullptr) : ordered_json(table.engine)},
                     {"clauses", std::move(clauses)}});
  }
  for (const UsedWaiver& used : statement.waivers) waivers.push_back(json_of(used));
  for (const UnrunCases& cases : statement.unrun) unrun.push_back({{"reason", cases.reason}, {"cases", cases.cases}});
  return {{"statement_version", statement_version},
          {"subject",
           {{"name", head.subject},
            {"version", head.subject_version},
            {"fault", head.fault.empty() ? ordered_json(nullptr) : ordered_json(head.fault)}}},
          {"suite_version", head.suite_version},
          {"date", head.started},
          {"profile", head.profile},
          {"seed", head.seed},
          {"devices", statement.devices},
          {"gpus", std::move(gpus)},
          {"fabrics", statement.fabrics},
          {"world_sizes", statement.world_sizes},
          {"engine_kinds", std::move(kinds)},
          {"waivers", std::move(waivers)},
          {"partial", head.partial},
          {"outside_profile", head.outside_profile},
          {"not_run", std::move(unrun)}};
}

}  // namespace shardproof::reports
