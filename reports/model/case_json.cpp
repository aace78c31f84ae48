#include "reports/model/case_json.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace shardproof::reports {

using base::Fields;

using nlohmann::ordered_json;

namespace {

ordered_json json_of(const RankOutcome& rank) {
  return {{"outcome", protocol::to_string(rank.outcome)}, {"assertions", rank.assertions}};
}

ordered_json json_of(const Failure& failure) {
  const auto& a = failure.assertion;
  return {{"rank", failure.rank},          {"file", a.file},           {"line", a.line},         {"macro", a.macro},
          {"expression", a.expression},    {"expansion", a.expansion}, {"messages", a.messages}, {"clauses", a.clauses},
          {"monotonic_ns", a.monotonic_ns}};
}

protocol::Outcome read_outcome(const Fields& fields, const ordered_json& json) {
  const auto outcome = protocol::outcome_from_string(fields.text("outcome"));
  if (!outcome) base::refuse(fields.where("outcome"), "an outcome", json["outcome"]);
  return *outcome;
}

void read_rank(const ordered_json& json, CaseResult& result) {
  const Fields fields(json, "rank");
  const int rank = static_cast<int>(result.ranks.size());
  result.ranks.push_back({read_outcome(fields, json), fields.integer<std::uint64_t>("assertions")});
  if (fields.has("reason")) result.reasons[rank] = fields.text("reason");
}

Failure read_failure(const ordered_json& json) {
  const Fields fields(json, "failure");
  return {.rank = fields.integer<int>("rank", 0),
          .assertion = {.file = fields.text("file"),
                        .line = fields.integer<int>("line", 0),
                        .macro = fields.text("macro"),
                        .expression = fields.text("expression"),
                        .expansion = fields.text("expansion"),
                        .messages = fields.texts("messages"),
                        .clauses = fields.texts("clauses"),
                        .monotonic_ns = fields.integer<std::int64_t>("monotonic_ns", 0)}};
}

}  // namespace

ordered_json json_of(const CaseResult& result, bool flaky) {
  ordered_json ranks = ordered_json::array();
  for (const auto& rank : result.ranks) ranks.push_back(json_of(rank));
  for (const auto& [rank, reason] : result.reasons) ranks.at(static_cast<std::size_t>(rank))["reason"] = reason;
  ordered_json measurements = ordered_json::object();
  for (const auto& [name, measurement] : result.measurements) {
    measurements[name] = ordered_json{{"value", measurement.value}, {"unit", measurement.unit}};
  }
  ordered_json failures = ordered_json::array();
  for (const auto& failure : result.failures) failures.push_back(json_of(failure));
  const auto& info = result.info;
  ordered_json json{{"id", info.id},
                    {"suite", info.suite},
                    {"params", info.params},
                    {"world_size", info.world_size},
                    {"world", result.world},
                    {"repetition", result.repetition},
                    {"clauses", info.clauses},
                    {"tags", info.tags},
                    {"needs", info.needs},
                    {"file", info.file},
                    {"line", info.line},
                    {"verdict", to_string(result.verdict)},
                    {"flaky", flaky},
                    {"waived", result.waiver >= 0},
                    {"assertions", result.assertions},
                    {"measurements", std::move(measurements)},
                    {"ranks", std::move(ranks)},
                    {"notes", result.notes},
                    {"failures", std::move(failures)},
                    {"failures_left_out", result.failures_left_out},
                    {"duration_ns", result.duration_ns}};
  if (!info.engine.empty()) json["engine"] = info.engine;
  if (result.attempt > 0) json["attempt"] = result.attempt;
  if (result.superseded) json["superseded"] = true;
  if (result.left_out) json["left_out"] = true;
  if (result.skipped_by >= 0) json["skipped_by"] = result.skipped_by;
  if (result.unclaimed) json["unclaimed"] = true;
  if (!result.combined.empty()) json["combined"] = result.combined;
  if (result.waiver >= 0) json["waiver"] = result.waiver;
  return json;
}

CaseResult read_case(const ordered_json& json) {
  const Fields fields(json, "case");
  CaseResult result;
  protocol::from_json(json, result.info);
  result.world = fields.integer<int>("world");
  result.repetition = fields.integer<std::uint64_t>("repetition");
  const auto verdict = verdict_from_string(fields.text("verdict"));
  if (!verdict) base::refuse(fields.where("verdict"), "a verdict", json["verdict"]);
  result.verdict = *verdict;
  result.assertions = fields.integer<std::uint64_t>("assertions");
  for (const auto& [name, value] : fields.object("measurements").items()) {
    const Fields measurement(value, "measurement");
    result.measurements[name] = {measurement.number("value"), measurement.text("unit")};
  }
  const auto& ranks = fields.array("ranks");
  result.ranks.reserve(ranks.size());
  for (const auto& rank : ranks) read_rank(rank, result);
  result.notes = fields.texts("notes");
  for (const auto& failure : fields.array("failures")) result.failures.push_back(read_failure(failure));
  if (fields.has("attempt")) result.attempt = fields.integer<int>("attempt", 0);
  if (fields.has("superseded")) result.superseded = fields.boolean("superseded");
  if (fields.has("left_out")) result.left_out = fields.boolean("left_out");
  result.failures_left_out = fields.integer<std::uint64_t>("failures_left_out");
  result.duration_ns = fields.integer<std::int64_t>("duration_ns", 0);
  result.skipped_by = read_index_if_given(fields, "skipped_by");
  result.unclaimed = fields.has("unclaimed") && fields.boolean("unclaimed");
  if (fields.has("combined")) result.combined = fields.texts("combined");
  result.waiver = read_index_if_given(fields, "waiver");
  return result;
}

int read_index_if_given(const Fields& fields, const char* name) {
  if (!fields.has(name)) return -1;
  const int index = fields.integer<int>(name);
  if (index < 0) base::refuse(fields.where(name), "no negative number", fields.at(name, "an index"));
  return index;
}

}  // namespace shardproof::reports
